"""Decoding of files, PIL images and arrays to squares of uint8 pixels.

Decoding applies the EXIF orientation and converts grey, palette, transparent, CMYK and 16-bit images to
RGB. Normalisation (mean and standard deviation) belongs to the backbone and is applied later, to batches of squares.

``memory.py`` charges each file for the memory that it will take before a pixel is decoded, so no image takes more than
``budgets.MAX_IMAGE_MEMORY``. Conversions of modes work on blocks, since each of their copies would be as large as the image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from PIL import Image, UnidentifiedImageError

from ..budgets import MAX_PIXELS
from ..errors import InputError
from .formats import FILE_TYPES, File, open_file
from .memory import check_scaling, check_turning, prepare_decoding
from .metadata import forget_orientation, orientation_of


class ArrayImage(Protocol):
    """An image as an array of any library, such as a torch tensor."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The height, the width and, unless the image is grey, the number of channels."""

    def __array__(self) -> np.ndarray:
        """Return the image as an array of numpy."""


ImageSource = File | Image.Image | np.ndarray | ArrayImage

MIN_SIDE = 4
BLOCK = 512  # the side of the blocks of pixels that are converted at once
MAX_SIZE = 4096  # of the input squares of a backbone

SUFFIXES = frozenset(
    ".jpg .jpeg .jpe .jfif .png .webp .bmp .dib .tif .tiff .gif .heic .heif .avif .ppm .pgm".split()  # noqa: SIM905
)

Fit = Literal["squash", "crop"]
LEVEL_MODES = ("I;16", "I;16B", "I;16L", "I;16N", "I", "F")
INTERPOLATIONS = ("nearest", "bilinear", "bicubic", "lanczos", "box", "hamming")
TURNS = dict(
    zip(
        range(2, 9),  # EXIF orientations
        (
            Image.Transpose.FLIP_LEFT_RIGHT,
            Image.Transpose.ROTATE_180,
            Image.Transpose.FLIP_TOP_BOTTOM,
            Image.Transpose.TRANSPOSE,
            Image.Transpose.ROTATE_270,
            Image.Transpose.TRANSVERSE,
            Image.Transpose.ROTATE_90,
        ),
        strict=True,
    )
)


@dataclass(frozen=True)
class PixelSpec:
    """The input format of a backbone: image size, normalisation, interpolation and cropping."""

    size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    interpolation: str = "bicubic"
    fit: Fit = "squash"  # scales the complete image, as in the paper; "crop" is ImageNet's test protocol
    crop: float = 0.875


def decode(source: ImageSource, near: int = 0) -> Image.Image:
    """Return an upright RGB image.

    The source is a path, the bytes of a file, a PIL image or a uint8 array (H, W), (H, W, 3) or (H, W, 4).
    ``near`` is the side that will be needed; JPEGs are then decoded at a fraction of their size.
    """
    with open_image(source, near) as image:
        return to_rgb(upright(image, keep=isinstance(source, Image.Image)))


def read_square(source: ImageSource, spec: PixelSpec) -> np.ndarray:
    """Return an image as uint8 pixels (3, size, size)."""
    with open_image(source, spec.size) as image:
        return to_square(to_rgb(upright(image, keep=isinstance(source, Image.Image))), spec)


@contextmanager
def open_image(source: ImageSource, near: int = 0) -> Iterator[Image.Image]:
    """Open an image and check its size before a pixel is decoded; explain errors, also those of the block.

    ``near`` is the side that will be needed; JPEGs will then be decoded at a fraction of their size.
    """
    try:
        if isinstance(source, Image.Image):
            _check_size(*source.size)
            yield source
        elif not isinstance(source, FILE_TYPES):
            yield _from_array(np.asarray(source))
        else:
            with open_file(source) as image:
                _check_size(*image.size)
                with prepare_decoding(image, near):
                    yield image
    except InputError:
        raise
    except Image.DecompressionBombError:  # Pillow itself rejects the largest images
        raise InputError(f"it has more than {MAX_PIXELS // 10**6} megapixels") from None
    except UnidentifiedImageError:
        raise InputError("this is not an image") from None
    except MemoryError:  # of a process with a limit
        raise InputError("decoding it takes too much memory") from None
    except Exception as error:  # Pillow's decoders raise many exception types for damaged files
        message = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"the image is damaged ({message[:80]})") from error


def _check_size(width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise InputError(f"it has more than {MAX_PIXELS // 10**6} megapixels ({width}×{height})")
    if min(width, height) < MIN_SIDE:
        raise InputError(f"{width}×{height} pixels are too few")


def to_rgb(image: Image.Image) -> Image.Image:
    """Return the image as 8-bit RGB; transparent pixels become white."""
    image.load()
    if image.mode in LEVEL_MODES:
        white = _white_level(image)
        return _by_blocks(image, lambda block: _scale_levels(block, white))
    if image.mode in ("RGBA", "LA", "PA", "RGBa") or "transparency" in image.info:
        return _by_blocks(image, _on_white)
    return image if image.mode == "RGB" else image.convert("RGB")


def _by_blocks(image: Image.Image, convert: Callable[[Image.Image], Image.Image]) -> Image.Image:
    """Return an RGB image whose blocks are those of an image, converted one by one."""
    rgb = Image.new("RGB", image.size)
    for box in _blocks(image):
        rgb.paste(convert(image.crop(box)), box)
    return rgb


def _blocks(image: Image.Image) -> Iterator[tuple[int, int, int, int]]:
    for top in range(0, image.height, BLOCK):
        for left in range(0, image.width, BLOCK):
            yield left, top, min(left + BLOCK, image.width), min(top + BLOCK, image.height)


def _on_white(image: Image.Image) -> Image.Image:
    rgba = image.convert("RGBA")
    white = Image.new("RGBA", rgba.size, (255, 255, 255, 255))
    return Image.alpha_composite(white, rgba).convert("RGB")


def _white_level(image: Image.Image) -> float:
    """Return the level that is white in an image of 16 bits or of floats, as far as its largest level tells."""
    if image.mode.startswith("I;16"):
        return 65535.0
    highest = max(float(_levels(image.crop(box)).max()) for box in _blocks(image))
    if highest > 255:
        return 65535.0
    return 1.0 if image.mode == "F" and highest <= 1 else 255.0


def _scale_levels(image: Image.Image, white: float) -> Image.Image:
    levels = _levels(image).clip(0, white) * (255.0 / white)
    return Image.fromarray(levels.round().astype(np.uint8)).convert("RGB")


def _levels(image: Image.Image) -> np.ndarray:
    return np.nan_to_num(np.asarray(image).astype(np.float64))


def to_square(image: Image.Image, spec: PixelSpec) -> np.ndarray:
    """Return an RGB image as uint8 pixels (3, size, size)."""
    size = (spec.size, spec.size)
    if spec.fit == "crop":
        short = round(spec.size / spec.crop)
        scale = short / min(image.size)
        size = max(short, round(image.width * scale)), max(short, round(image.height * scale))
    if spec.fit == "crop" or image.size != size:
        check_scaling(image.size, size)
        image = image.resize(size, getattr(Image.Resampling, spec.interpolation.upper()))
    if spec.fit == "crop":
        left, top = (image.width - spec.size) // 2, (image.height - spec.size) // 2
        image = image.crop((left, top, left + spec.size, top + spec.size))
    return np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1))


def reduce(source: ImageSource, near: int) -> ImageSource:
    """Return an image in memory at a fraction of its size, if both sides stay above twice ``near`` (0: as it is).

    It is the reduction that ``decode`` makes of JPEGs, for images that have to be kept until they are needed.
    """
    if isinstance(source, FILE_TYPES) or near == 0:
        return source
    try:
        image = decode(source)
    except InputError:  # decoding it later reports the reason
        return source
    factor = min(image.size) // (2 * near)
    return image.reduce(factor) if factor > 1 else source


def side_of(source: ImageSource) -> int:
    """Return the larger side of an image without decoding it; 0 if it is not readable."""
    if isinstance(source, Image.Image):
        return max(source.size)
    try:
        if not isinstance(source, FILE_TYPES):
            return max(source.shape[:2], default=0)
        with open_file(source) as image:
            return max(image.size)
    except Exception:  # decoding it later reports the reason
        return 0


def upright(image: Image.Image, keep: bool = False) -> Image.Image:
    """Return the first frame of an image in its upright orientation; ``keep`` is whether the image must not be changed."""
    if keep and image.tell():
        image.seek(0)
    image.load()
    turn = TURNS.get(orientation_of(image))
    if turn is None:
        upright = image.copy() if keep else image
    else:
        check_turning(image)
        upright = image.transpose(turn)
        if not keep:
            image.close()  # frees its pixels
    forget_orientation(upright)
    return upright


def _from_array(array: np.ndarray) -> Image.Image:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    valid_shape = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))
    if array.dtype != np.uint8 or not valid_shape or 0 in array.shape:
        raise InputError(
            f"an image array has dtype {array.dtype} and shape {array.shape}",
            "Use uint8 of shape (H, W), (H, W, 3) or (H, W, 4).",
        )
    _check_size(array.shape[1], array.shape[0])
    return Image.fromarray(array)
