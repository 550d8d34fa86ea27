"""What an array means as an image: the order of its axes and the range of its values, or an error that says the conversion.

An image becomes uint8 (H, W), (H, W, 3) or (H, W, 4), the form that the rest of the package works with:

- uint8 is taken as it is, other integers if they lie in 0…255, True and False are white and black;
- floats are 0…1 if none exceeds 1, and 0…255 if the largest is at least 16; in between nobody can tell;
- channels are the last axis or the first, whichever has 1, 3 or 4 entries; if both do, nobody can tell.

The range is that of the complete batch where images come as one array: a dark image is still dark. Arrays may be of any
library that numpy can read (torch tensors with a gradient or on a GPU as well); nothing is imported for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ..arrays import Array, dtype_name, is_tensor
from ..errors import InputError
from ..formatting import capitalize, count
from .pixels import MIN_SIDE

CHANNELS = (1, 3, 4)
WHITE = 255
OVERSHOOT = 0.01  # beyond 0 and 1, by which interpolated images may exceed them
DIMMEST = 16  # the largest value of a float image that can only be meant as 0…255


class UnsupportedImageError(InputError):
    """An image that is not damaged but has a type, shape or range that could mean several things, or none."""


def is_array(value: object) -> bool:
    """Tell whether a value is an array of numpy or of another library."""
    return hasattr(value, "shape") and hasattr(value, "dtype") and hasattr(value, "__array__")


def as_numpy(array: Array) -> np.ndarray:
    """Return an array of any library as one of numpy; a tensor without its graph and from its device."""
    if is_tensor(array):
        array = array.detach().cpu()
        return np.asarray(array.float() if dtype_name(array) == "bfloat16" else array)
    return np.asarray(array)


@dataclass
class ArrayConverter:
    """Converts the arrays of one call to uint8 images, and refuses float arrays in 0…1 among others in 0…255."""

    ranges: dict[int, str] = field(default_factory=dict)  # factor → the first image that has it

    def image(self, array: Array, name: str) -> np.ndarray:
        """Return one image as uint8 (H, W), (H, W, 3) or (H, W, 4); ``name`` is for messages."""
        pixels = as_numpy(array)
        factor = self._factor(pixels, name)
        return _to_uint8(_channels_last(pixels, name), factor)

    def batch(self, array: Array) -> Iterator[np.ndarray]:
        """Yield the images of an array (N, H, W), (N, H, W, C) or (N, C, H, W), converted one by one."""
        pixels = as_numpy(array)
        factor = self._factor(pixels, "The array")
        for i, image in enumerate(pixels):
            yield _to_uint8(_channels_last(image, f"image {i}"), factor)

    def _factor(self, pixels: np.ndarray, name: str) -> int:
        """Return by what the values are multiplied to be in 0…255."""
        if pixels.dtype == np.uint8:  # a mask of 0 and 1 is not known from a dark image
            return 1
        factor = _find_factor(pixels, name)
        if pixels.dtype.kind != "f" or not pixels.any():  # black is black in both ranges
            return factor
        other = next((first for known, first in self.ranges.items() if known != factor), None)
        if other is not None:
            raise UnsupportedImageError(
                f"{_describe(pixels, name)}, but {other} {'in 0…255' if factor == WHITE else 'in 0…1'}.",
                "Give all images in one range: image / 255 for those in 0…255.",
            )
        self.ranges.setdefault(factor, f"{name} is")
        return factor


def _find_factor(pixels: np.ndarray, name: str) -> int:
    """Return 255 for values in 0…1 and 1 for values in 0…255; raise an error with the conversion for all others."""
    if pixels.dtype.kind not in "buif":
        what = "object" if pixels.dtype.kind == "O" else str(pixels.dtype)
        hint = "Give a list of arrays of numbers, one for each image."
        message = f"{capitalize(name)} is an array of dtype {what}, which holds no pixels."
        raise UnsupportedImageError(message, hint)
    if pixels.size == 0:
        raise UnsupportedImageError(f"{_describe(pixels, name)}: it is empty.", "Remove it.")
    if pixels.dtype == bool:
        return WHITE
    low, high = pixels.min(), pixels.max()
    if not (np.isfinite(low) and np.isfinite(high)):
        raise UnsupportedImageError(
            f"{_describe(pixels, name)}.", "Remove the image, or replace these values by 0."
        )
    integers = pixels.dtype.kind != "f"
    if integers and low < 0:
        raise UnsupportedImageError(
            f"{_describe(pixels, name)}: pixels are not negative.", "Give values in 0…255, best as uint8."
        )
    if low < -OVERSHOOT:
        raise UnsupportedImageError(f"{_describe(pixels, name)}: it looks normalised.", _undo(pixels))
    if integers and high != 1 and high <= WHITE:
        return 1
    if not integers and high <= 1 + OVERSHOOT:
        return WHITE
    if not integers and DIMMEST <= high <= WHITE:
        return 1
    raise UnsupportedImageError(
        f"{_describe(pixels, name)}, which are neither 0…1 nor 0…255.", _rescaling(float(high), integers)
    )


def _rescaling(high: float, integers: bool) -> str:
    """Return the conversion for values of an unknown range."""
    if integers and high == 1:
        return "If 1 is white, give image * 255."
    if high <= DIMMEST:
        return "If 1 is white, give image.clip(0, 1); if 255 is white, give image / 255."
    return "Divide it by the value that is white, for example image / 65535 for 16 bits."


def _undo(pixels: np.ndarray) -> str:
    """Return how to undo a normalisation."""
    first = pixels.ndim >= 3 and pixels.shape[-3] in CHANNELS and pixels.shape[-1] not in CHANNELS
    shape = "(3, 1, 1)" if first else "(3,)"
    undo = f"undo the normalisation, for example image * std + mean with std and mean of shape {shape}"
    if pixels.min() >= -1 - OVERSHOOT and pixels.max() <= 1 + OVERSHOOT:
        return f"If it was scaled to -1…1, give (image + 1) / 2; otherwise {undo}."
    return f"{capitalize(undo)}, or leave the normalisation out of the transforms."


def _channels_last(pixels: np.ndarray, name: str) -> np.ndarray:
    """Return a view (H, W) or (H, W, C) of an image; raise an error if its axes could mean several things."""
    shape, reason = pixels.shape, "is no image"
    turn = "use image.transpose(1, 2, 0) or, in torch, permute"
    if pixels.ndim == 2 and min(shape) > 0:
        return pixels
    if pixels.ndim == 3 and min(shape) > 0:
        last, first = _fits(shape[2], shape[:2]), _fits(shape[0], shape[1:])
        if (first and last) or (shape[0] == shape[2] and shape[2] in CHANNELS):
            reason = "could have its channels first or last"
        elif first:
            return pixels.transpose(1, 2, 0)
        elif shape[2] in CHANNELS:  # if its sides are too short, decoding it says so
            return pixels
    raise UnsupportedImageError(
        f"{_describe(pixels, name)}, which {reason}.",
        "Its shape should be (H, W), (H, W, 3) or (H, W, 4)"
        + (f": {turn}." if 0 not in shape and {shape[0], shape[-1]} & {*CHANNELS} else "."),
    )


def _fits(channels: int, sides: tuple[int, ...]) -> bool:
    return channels in CHANNELS and min(sides) >= MIN_SIDE


def _to_uint8(pixels: np.ndarray, factor: int) -> np.ndarray:
    if pixels.dtype == np.uint8:
        return pixels
    values = pixels.astype(np.float32 if pixels.itemsize <= 4 else np.float64) * factor
    return np.asarray(np.rint(values).clip(0, WHITE).astype(np.uint8))


def describe_array(array: Array) -> str:
    """Return what an array is: dtype, shape and, for numbers other than uint8, the range of its values."""
    pixels = as_numpy(array)
    text = f"{pixels.dtype} of shape {pixels.shape}"
    if pixels.dtype == np.uint8 or pixels.dtype.kind not in "uif" or pixels.size == 0:
        return text
    finite = pixels[np.isfinite(pixels)]
    bad = pixels.size - finite.size
    if bad:
        text += f" with {count(bad, 'value')} that {'is' if bad == 1 else 'are'} NaN or infinite"
    elif finite.size:
        text += f" with values from {float(finite.min()):.4g} to {float(finite.max()):.4g}"
    return text


def _describe(pixels: np.ndarray, name: str) -> str:
    return f"{capitalize(name)} is {describe_array(pixels)}"
