"""Images and their pixels."""

from .images import (
    LabelledImages,
    LoadedImages,
    Skipped,
    find_images,
    images_in,
    largest_side,
    load,
    read_squares,
)
from .pixels import PixelSpec, decode, normalise, resize, to_square

__all__ = [
    "LabelledImages",
    "LoadedImages",
    "PixelSpec",
    "Skipped",
    "decode",
    "find_images",
    "images_in",
    "largest_side",
    "load",
    "normalise",
    "read_squares",
    "resize",
    "to_square",
]
