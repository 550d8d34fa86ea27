"""Images, their labels and their pixels."""

from .images import (
    LabelledImages,
    LoadedImages,
    SkippedImage,
    check_headers,
    find_images,
    largest_side,
    list_images,
    load,
    read_squares,
)
from .pixels import PixelSpec, decode, to_square

__all__ = [
    "LabelledImages",
    "LoadedImages",
    "PixelSpec",
    "SkippedImage",
    "check_headers",
    "decode",
    "find_images",
    "list_images",
    "largest_side",
    "load",
    "read_squares",
    "to_square",
]
