"""Real numbers as whole numbers modulo 2⁶⁴, so that masks cancel to the last bit.

x becomes round(x·2ᵏ) in two's complement. Sums of such numbers are exact and do not depend on their order; the
only loss is the rounding, at most 2⁻ᵏ⁻¹ a client. With k = 24 that is 3·10⁻⁸, and ten thousand clients may each
bring numbers up to 2·10⁷. Nothing wraps round unseen: a client whose number could make the sum overflow refuses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import InputError

Words: TypeAlias = npt.NDArray[np.uint64]
Reals: TypeAlias = npt.NDArray[np.float64]
Shapes: TypeAlias = Mapping[str, tuple[int, ...]]

BITS = 24  # k, the binary places
MOST_BITS = 40


def size(shapes: Shapes) -> int:
    """How many numbers all vectors have together."""
    return sum(math.prod(shape) for shape in shapes.values())


def largest(bits: int, clients: int) -> float:
    """The largest number that each of so many clients may bring without the sum overflowing."""
    return 2.0 ** (62 - bits) / clients  # half of what 64 bits hold: rounding is then no matter


def encode(vectors: Mapping[str, npt.ArrayLike], shapes: Shapes, bits: int, clients: int) -> Words:
    """The vectors one after another, by name, as whole numbers; refused unless they are what was asked for."""
    if vectors.keys() != shapes.keys():
        wrong = sorted(vectors.keys() ^ shapes.keys())
        raise InputError(f"The vectors to be summed differ from those asked for: {', '.join(wrong)}.")
    limit = largest(bits, clients)
    parts = []
    for name in sorted(shapes):
        values = np.asarray(vectors[name], dtype=np.float64)
        if values.shape != tuple(shapes[name]):
            raise InputError(f"{name} has the shape {values.shape}, and {tuple(shapes[name])} was asked for.")
        if not np.isfinite(values).all():
            raise InputError(f"{name} has numbers that are not finite.")
        if values.size and float(np.abs(values).max()) > limit:
            raise InputError(
                f"{name} has numbers up to {np.abs(values).max():.3g}; the sum of {clients} such clients could "
                f"overflow above {limit:.3g}.",
                f"Ask for fewer binary places than {bits}.",
            )
        parts.append(np.rint(values.ravel() * 2.0**bits).astype(np.int64).view(np.uint64))
    return np.concatenate(parts) if parts else np.zeros(0, np.uint64)


def decode(words: Words, shapes: Shapes, bits: int) -> dict[str, Reals]:
    """The sums, as real numbers of the shapes asked for."""
    values = words.view(np.int64) / 2.0**bits
    found, begin = {}, 0
    for name in sorted(shapes):
        end = begin + math.prod(shapes[name])
        found[name] = values[begin:end].reshape(shapes[name])
        begin = end
    return found
