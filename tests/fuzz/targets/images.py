"""Images of all formats that are read, to the squares that a backbone takes."""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import PIL
from PIL import Image
from pillow_heif import from_pillow

from filmtransfer.data.pixels import PixelSpec, decode, reduce, side_of, to_square
from filmtransfer.errors import FitError

TRACED = (str(Path(PIL.__file__).parent),)
SQUASH = PixelSpec(32, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
CROP = PixelSpec(32, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), fit="crop")


def seeds() -> list[bytes]:
    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(0, 256, (12, 17, 3), np.uint8))
    palette, grey, alpha = image.quantize(8), image.convert("L"), image.convert("RGBA")
    deep = Image.fromarray(rng.integers(0, 2**16, (12, 17)).astype(np.uint16))
    exif = Image.Exif()
    exif[0x0112] = 6  # turned
    variants: list[tuple[Image.Image, str, dict[str, Any]]] = [
        (image, "JPEG", {"quality": 60}),
        (image, "JPEG", {"progressive": True, "exif": exif.tobytes()}),
        (image.convert("CMYK"), "JPEG", {}),
        (image, "PNG", {}),
        (alpha, "PNG", {"exif": exif.tobytes()}),
        (palette, "PNG", {"transparency": 1}),
        (deep, "PNG", {}),
        (image, "PNG", {"save_all": True, "append_images": [image.rotate(90)]}),
        (image, "WEBP", {}),
        (alpha, "WEBP", {"lossless": True}),
        (image, "WEBP", {"save_all": True, "append_images": [image.rotate(90)]}),
        (palette, "GIF", {}),
        (palette, "GIF", {"save_all": True, "append_images": [palette.rotate(180)]}),
        (image, "TIFF", {}),
        (image, "TIFF", {"compression": "tiff_lzw"}),
        (image, "TIFF", {"compression": "jpeg"}),
        (deep, "TIFF", {"compression": "tiff_deflate"}),
        (grey.convert("F"), "TIFF", {}),
        (image, "BMP", {}),
        (palette, "BMP", {}),
        (image, "PPM", {}),
        (grey, "PPM", {}),
        (image, "AVIF", {}),
    ]
    return [_encoded(*variant) for variant in variants] + [_heif(image)]


def run(data: bytes) -> None:
    for spec in (SQUASH, CROP):
        with suppress(FitError):
            square = to_square(decode(data, near=spec.size), spec)
            assert square.shape == (3, 32, 32), f"a square of shape {square.shape}"
    reduce(data, 4)
    side_of(data)


def _encoded(image: Image.Image, kind: str, options: dict[str, Any]) -> bytes:
    file = BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def _heif(image: Image.Image) -> bytes:
    file = BytesIO()
    from_pillow(image).save(file, quality=50)
    return file.getvalue()
