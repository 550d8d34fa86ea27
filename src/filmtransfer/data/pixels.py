"""Decoding of files, PIL images and arrays to squares of uint8 pixels.

Decoding applies the EXIF orientation and converts grey, palette, transparent, CMYK and 16-bit images to
RGB. Normalisation (mean and standard deviation) belongs to the backbone and is applied later, to batches of squares.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Literal, Protocol

import numpy as np
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError

from ..budgets import MAX_PIXELS
from ..errors import InputError


class ArrayImage(Protocol):
    """An image as an array of any library, such as a torch tensor."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The height, the width and, unless the image is grey, the number of channels."""

    def __array__(self) -> np.ndarray:
        """Return the image as an array of numpy."""


File = str | os.PathLike[str] | bytes  # a path, or the content
FILE_TYPES = (str, os.PathLike, bytes)  # for isinstance; every other source that is not Pillow's is an array
ImageSource = File | Image.Image | np.ndarray | ArrayImage

MIN_SIDE = 4
MAX_SIZE = 4096  # of the input squares of a backbone

SUFFIXES = frozenset(
    ".jpg .jpeg .jpe .jfif .png .webp .bmp .dib .tif .tiff .gif .heic .heif .avif .ppm .pgm".split()  # noqa: SIM905
)

Fit = Literal["squash", "crop"]
INTERPOLATIONS = ("nearest", "bilinear", "bicubic", "lanczos", "box", "hamming")


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
    with open_image(source) as image:
        if near and image.format == "JPEG" and not isinstance(source, Image.Image):
            image.draft("RGB", (2 * near, 2 * near))
        return to_rgb(_upright(image))


@contextmanager
def open_image(source: ImageSource, formats: list[str] | None = None) -> Iterator[Image.Image]:
    """Open an image and check its size before a pixel is decoded; explain errors, also those of the block.

    A file must have one of the ``formats`` of Pillow, by default any of them.
    """
    try:
        if isinstance(source, Image.Image):
            _check_size(*source.size)
            yield source
        elif not isinstance(source, FILE_TYPES):
            yield _from_array(np.asarray(source))
        elif (len(source) if isinstance(source, bytes) else Path(source).stat().st_size) == 0:
            raise InputError("the file is empty")
        else:
            with Image.open(as_file(source), formats=formats) as image:
                _check_size(*image.size)
                yield image
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError("there is no such file") from None
    except Image.DecompressionBombError:  # Pillow itself rejects the largest images
        raise InputError(f"it has more than {MAX_PIXELS // 10**6} megapixels") from None
    except UnidentifiedImageError:
        raise InputError("this is not an image") from None
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
    if image.mode == "RGB" and "transparency" not in image.info:
        image.load()
        return image
    if image.mode in ("I;16", "I;16B", "I;16L", "I;16N", "I", "F"):
        levels = np.nan_to_num(np.asarray(image).astype(np.float64))
        top = 65535.0 if image.mode.startswith("I;16") or levels.max() > 255 else 255.0
        if image.mode == "F" and levels.max() <= 1:
            top = 1.0
        return _from_array((levels.clip(0, top) * (255.0 / top)).round().astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        white = Image.new("RGBA", rgba.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, rgba).convert("RGB")
    return image.convert("RGB")


def to_square(image: Image.Image, spec: PixelSpec) -> np.ndarray:
    """Return an image as uint8 pixels (3, size, size)."""
    resampling = getattr(Image.Resampling, spec.interpolation.upper())
    if spec.fit == "crop":
        short = round(spec.size / spec.crop)
        scale = short / min(image.size)
        image = image.resize(
            (max(short, round(image.width * scale)), max(short, round(image.height * scale))), resampling
        )
        left, top = (image.width - spec.size) // 2, (image.height - spec.size) // 2
        image = image.crop((left, top, left + spec.size, top + spec.size))
    elif image.size != (spec.size, spec.size):
        image = image.resize((spec.size, spec.size), resampling)
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
        with Image.open(as_file(source)) as image:
            return max(image.size)
    except Exception:  # decoding it later reports the reason
        return 0


def as_file(source: File) -> str | os.PathLike[str] | BytesIO:
    """Return what Pillow can open: a path, or the bytes of a file as a file object."""
    return BytesIO(source) if isinstance(source, bytes) else source


def _upright(image: Image.Image) -> Image.Image:
    image.load()
    if getattr(image, "is_animated", False):
        image.seek(0)
    return ImageOps.exif_transpose(image)


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


def _is_heif(header: bytes) -> bool:
    """Return whether a file is HEIC, the format of many phones; import and register its decoder if it may be.

    The import takes half as long as that of this package. Two threads may register the decoder at the same time.
    """
    if header[4:8] != b"ftyp":  # no ISO media file
        return False
    try:
        from pillow_heif import register_heif_opener
    except ImportError:  # pragma: no cover - a platform without the wheel can read all other formats
        return False
    register_heif_opener()  # in place of the two functions of this module
    accept = Image.OPEN["HEIF"][1]
    return accept is not None and bool(accept(header))


def _open_heif(file: IO[bytes], name: str | bytes) -> ImageFile.ImageFile:
    return Image.OPEN["HEIF"][0](file, name)


Image.register_open("HEIF", _open_heif, _is_heif)
