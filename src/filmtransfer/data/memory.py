"""The memory that an image takes while it is decoded or scaled, known from its header; a few bytes can declare gigabytes.

Decoding takes, for each pixel, what Pillow's image takes, and the larger of two amounts: what the decoder itself needs, and
what the RGB result takes. benchmarks/decoding.py measures the real memory of every format and mode.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from PIL import Image, ImageFile

from ..budgets import LARGE_IMAGE_MEMORY, MAX_IMAGE_MEMORY
from ..errors import InputError
from .metadata import ORIENTATION
from .scans import check_scans

_large_images = threading.RLock()

RGB = 4  # bytes of a pixel of most of Pillow's modes
NARROW = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2, "I;16L": 2, "I;16N": 2}  # and of the others
WEIGHTS = 48  # bytes that Pillow's resampling needs for each row and each column: six weights
BITS, ROWS, TILE_WIDTH, TILE_HEIGHT, COMPRESSION = 258, 278, 322, 323, 259  # tags of TIFF


def prepare_decoding(image: ImageFile.ImageFile, near: int) -> AbstractContextManager[object]:
    """Let JPEGs be decoded at a fraction of their size, and refuse an opened image that takes too much nevertheless.

    Returns the context in which it is decoded: large images wait for each other.

    ``near`` is the side that will be needed. Files of several JPEGs (MPO) are reduced only if it is necessary.
    """
    whole = image.width * image.height
    if image.fp is not None and image.format in ("JPEG", "MPO"):
        check_scans(image.fp)
    if near and image.format == "JPEG":
        image.draft("RGB", (2 * near, 2 * near))
    if near and image.format == "MPO" and decoding_memory(image, whole) > MAX_IMAGE_MEMORY:
        image.draft("RGB", (2 * near, 2 * near))
    needed = decoding_memory(image, whole)
    _check(needed, "decoding", image.size)
    return _large_images if needed > LARGE_IMAGE_MEMORY else nullcontext()


def check_turning(image: Image.Image) -> None:
    """Refuse to turn a decoded image upright if the copy takes too much memory."""
    _check(2 * NARROW.get(image.mode, RGB) * image.width * image.height, "turning", image.size)


def check_scaling(size: tuple[int, int], target: tuple[int, int]) -> None:
    """Refuse to scale an RGB image in a way that takes too much memory: Pillow scales its rows first."""
    (width, height), (new_width, new_height) = size, target
    pixels = width * height + new_width * height + new_width * new_height
    lines = width + height + new_width + new_height
    _check(RGB * pixels + WEIGHTS * lines, "scaling", size)


def decoding_memory(image: ImageFile.ImageFile, whole: int) -> int:
    """Return the bytes that decoding an opened image to RGB takes; ``whole`` is the number of pixels before a reduction."""
    pixels = image.width * image.height
    own = NARROW.get(image.mode, RGB) * pixels
    result = 0 if image.mode == "RGB" and "transparency" not in image.info else RGB * pixels
    return own + max(_decoder_memory(image, whole), result)


def _decoder_memory(image: ImageFile.ImageFile, whole: int) -> int:
    """Return the bytes that the decoder of a format needs itself."""
    bands = len(image.getbands())
    match image.format:
        case "JPEG" | "MPO":  # the coefficients of all components, if the file is progressive
            layers: list[Any] = getattr(image, "layer", [])
            sampled = [horizontal * vertical for _, horizontal, vertical, _ in layers]
            return 2 * whole * int(sum(sampled)) // int(max(sampled))
        case "WEBP":  # two canvases and a copy
            return 12 * whole
        case "HEIF":  # planes and the image made of them, in 16 bits if they have more than 8
            return (2 * bands * (2 if image.info.get("bit_depth", 8) > 8 else 1) + 1) * whole
        case "AVIF":  # planes, which may have 16 bits, and the image made of them
            return (3 * bands + 2) * whole
        case "PPM":  # numbers of unusual ranges
            return 12 * whole
        case "TIFF":
            return _tiff_memory(image, whole)
        case _:  # the rows of PNG, GIF and BMP are decoded one by one
            return 0


def _tiff_memory(image: ImageFile.ImageFile, whole: int) -> int:
    """Return the bytes of a tile or strip, which may be larger than the image, or those of turning it upright."""
    tags = image.tag_v2  # type: ignore[attr-defined]
    turning = RGB * whole if tags.get(ORIENTATION, 1) != 1 else 0
    if tags.get(COMPRESSION, 1) == 1:
        return turning
    rows = min(tags.get(ROWS, image.height), image.height)
    width, height = tags.get(TILE_WIDTH, image.width), tags.get(TILE_HEIGHT, rows)
    bits = sum(tags.get(BITS, (1,)))
    return max(int(width * height * max(RGB, bits // 8)), turning)


def _check(needed: int, doing: str, size: tuple[int, int]) -> None:
    if needed > MAX_IMAGE_MEMORY:
        raise InputError(
            f"{doing} its {size[0]}×{size[1]} pixels would take {needed // 10**6} MB of memory, "
            f"more than {MAX_IMAGE_MEMORY // 10**6}"
        )
