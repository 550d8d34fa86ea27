"""Fixed-point encoding of real numbers as integers modulo 2⁶⁴, so that masks cancel exactly.

x becomes round(x·2ᵏ) in two's complement. Sums of such integers are exact and do not depend on their order; the
only error is the rounding, at most 2⁻ᵏ⁻¹ per client. With k = 24 that is 3·10⁻⁸, and ten thousand clients may each
send values up to 2·10⁷. The sum never overflows silently: a client whose values could make it overflow refuses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import InputError

IntegerArray: TypeAlias = npt.NDArray[np.uint64]
FloatArray: TypeAlias = npt.NDArray[np.float64]
Shapes: TypeAlias = Mapping[str, tuple[int, ...]]

FRACTIONAL_BITS = 24  # k
# k of the sums of scores: squares of logits may be 1e11, and 64 bits have to hold their sum. The rounding of a client's sum,
# 1e-4, is far below the spread of a cosine even over a few images.
SCORE_BITS = 12


def total_size(shapes: Shapes) -> int:
    """Return the number of elements of all arrays together."""
    return sum(math.prod(shape) for shape in shapes.values())


def largest_value(bits: int, clients: int) -> float:
    """Return the largest value that each of ``clients`` clients may send without overflow of the sum."""
    return 2.0 ** (62 - bits) / clients  # half of what 64 bits hold, which leaves room for the rounding


def to_fixed_point(
    arrays: Mapping[str, npt.ArrayLike], shapes: Shapes, bits: int, clients: int
) -> IntegerArray:
    """Encode the arrays as one vector, in the order of their names; they must have the requested shapes."""
    if arrays.keys() != shapes.keys():
        wrong = sorted(arrays.keys() ^ shapes.keys())
        raise InputError(f"The arrays to be summed differ from the requested ones: {', '.join(wrong)}.")
    limit = largest_value(bits, clients)
    parts = []
    for name in sorted(shapes):
        values = np.asarray(arrays[name], dtype=np.float64)
        if values.shape != tuple(shapes[name]):
            raise InputError(f"{name} has the shape {values.shape} instead of {tuple(shapes[name])}.")
        if not np.isfinite(values).all():
            raise InputError(f"{name} has values that are not finite.")
        if values.size and float(np.abs(values).max()) > limit:
            raise InputError(
                f"{name} has values up to {np.abs(values).max():.3g}; the sum over {clients} clients could "
                f"overflow above {limit:.3g}.",
                f"Use fewer fractional bits than {bits}.",
            )
        parts.append(np.rint(values.ravel() * 2.0**bits).astype(np.int64).view(np.uint64))
    return np.concatenate(parts) if parts else np.zeros(0, np.uint64)


def from_fixed_point(integers: IntegerArray, shapes: Shapes, bits: int) -> dict[str, FloatArray]:
    """Decode a vector of sums into arrays of the requested shapes."""
    values = integers.view(np.int64) / 2.0**bits
    arrays, start = {}, 0
    for name in sorted(shapes):
        end = start + math.prod(shapes[name])
        arrays[name] = values[start:end].reshape(shapes[name])
        start = end
    return arrays
