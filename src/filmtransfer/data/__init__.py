"""Images and their pixels."""

from .images import LabelledImages, LoadedImages, Skipped, find_images, load, read_squares
from .pixels import PixelSpec, decode, normalise, to_square

__all__ = [
    "LabelledImages",
    "LoadedImages",
    "PixelSpec",
    "Skipped",
    "decode",
    "find_images",
    "load",
    "normalise",
    "read_squares",
    "to_square",
]
