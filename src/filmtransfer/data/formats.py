"""The image formats that are read, and the opening of a file of one of them. No other module opens images with Pillow.

Only the formats of cameras and browsers are read: Pillow knows many more, and some of its readers start other programs.
The first bytes of a file decide which reader is imported, so that a command does not import those that it does not need.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from io import BytesIO
from typing import IO

from PIL import Image, ImageFile, UnidentifiedImageError

from ..budgets import MAX_IMAGE_FILE
from ..errors import InputError
from ..files import open_regular
from .metadata import check_metadata

File = str | os.PathLike[str] | bytes  # a path, or the content
FILE_TYPES = (str, os.PathLike, bytes)  # for isinstance; every other source that is not Pillow's is an array

HEADER = 12  # bytes
SIGNATURES: dict[str, re.Pattern[bytes]] = {
    name: re.compile(pattern, re.DOTALL)
    for name, pattern in {
        "JPEG": rb"\xff\xd8\xff",  # and MPO, of phones that put several images into one JPEG
        "PNG": rb"\x89PNG\r\n\x1a\n",
        "WEBP": rb"RIFF....WEBP",
        "HEIF": rb"....ftyp(?!avi[fs])",
        "AVIF": rb"....ftyp(avi[fs]|mif1|msf1)",
        "GIF": rb"GIF8[79]a",
        "BMP": rb"BM",
        "TIFF": rb"II[*+]\0|MM\0\*|II\0\*|MM\*\0",
        "PPM": rb"P[4-6f]",  # numbers in decimal take too long
    }.items()
}
READERS = {"JPEG": "Jpeg", "WEBP": "WebP", "AVIF": "Avif", "GIF": "Gif", "BMP": "Bmp", "TIFF": "Tiff"}


@contextmanager
def open_file(source: File) -> Iterator[ImageFile.ImageFile]:
    """Open an image file, which is not decoded yet; raise an error for what is no regular file, or no image."""
    with _open(source) as file, identify(file) as image:
        yield image


def identify(file: IO[bytes]) -> ImageFile.ImageFile:
    """Return the image of an open file, which is not decoded yet; raise UnidentifiedImageError if it is none."""
    header = file.read(HEADER)
    candidates = [name for name, signature in SIGNATURES.items() if signature.match(header)]
    formats = [name for name in candidates if _import_reader(name)]
    if not formats:  # without any, Pillow would import all its readers
        raise UnidentifiedImageError
    for name in formats:
        check_metadata(file, name)
    file.seek(0)
    return Image.open(file, formats=formats)


def _open(source: File) -> IO[bytes]:
    if isinstance(source, bytes):
        file: IO[bytes] = BytesIO(source)
        size = len(source)
    else:
        try:
            file = open_regular(source)
        except FileNotFoundError:
            raise InputError("there is no such file") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"it cannot be read ({reason})") from None
        size = os.fstat(file.fileno()).st_size
    if 0 < size <= MAX_IMAGE_FILE:
        return file
    file.close()
    raise InputError(
        "the file is empty" if size == 0 else f"the file has more than {MAX_IMAGE_FILE // 10**6} MB"
    )


def import_readers() -> None:
    """Import the readers of all formats and what they import later, for a process that can import nothing then."""
    Image.preinit()
    for name in SIGNATURES:
        _import_reader(name)
    for name in ("MpoImagePlugin", "ImageCms", "ImagePalette"):  # several JPEGs in one, LAB, palettes
        import_module(f"PIL.{name}")


def _import_reader(name: str) -> bool:
    """Import and register the reader of a format; return whether there is one on this platform."""
    try:
        if name != "HEIF":
            import_module(f"PIL.{READERS.get(name, name.capitalize())}ImagePlugin")
        elif Image.OPEN.get("HEIF") is None:  # its import takes half as long as that of this package
            from pillow_heif import register_heif_opener

            register_heif_opener()
    except ImportError:  # pragma: no cover - a platform without the wheel can read all other formats
        return False
    return name in Image.OPEN
