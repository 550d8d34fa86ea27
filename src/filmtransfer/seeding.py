"""Independent, named random number generators from one seed.

Randomness is an explicit argument: no function reads or sets a global generator. A generator is named after its use,
so a new use does not change the random numbers of the existing ones. Torch is imported only where one of its own
generators is made or used.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np

if TYPE_CHECKING:
    import torch


def make_generator(seed: int, *name: str | int) -> torch.Generator:
    """Return torch's CPU generator that depends on ``seed`` and on ``name``, its use."""
    import torch

    return torch.Generator().manual_seed(_derived_seed(seed, name))


def numpy_generator(seed: int, *name: str | int) -> np.random.Generator:
    """Return numpy's generator that depends on ``seed`` and on ``name``: ``make_generator`` without torch.

    Both are the same Mersenne Twister in the same state (torch uses the lower 32 bits of a seed), so that
    ``permutation`` does not depend on which of them it is given.
    """
    twister = np.random.MT19937()
    seeded_as_torch = np.random.RandomState(_derived_seed(seed, name) % 2**32)
    twister.state = cast(Any, seeded_as_torch.get_state(legacy=False))
    return np.random.Generator(twister)


def _derived_seed(seed: int, name: tuple[str | int, ...]) -> int:
    text = "/".join([str(int(seed)), *map(str, name)])
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


@overload
def permutation(count: int, generator: torch.Generator) -> torch.Tensor: ...
@overload
def permutation(count: int, generator: np.random.Generator) -> np.ndarray: ...
def permutation(count: int, generator: torch.Generator | np.random.Generator) -> torch.Tensor | np.ndarray:
    """Return a random permutation of ``range(count)``, of the library that the generator belongs to."""
    if isinstance(generator, np.random.Generator):
        return _shuffled(count, generator)
    import torch

    return torch.randperm(count, generator=generator)


def _shuffled(count: int, generator: np.random.Generator) -> np.ndarray:
    """Shuffle as ``torch.randperm`` does: Fisher and Yates, each index from one 32-bit number by its remainder."""
    order = np.arange(count)
    numbers = generator.integers(2**32, size=max(count - 1, 0), dtype=np.uint32).tolist()
    for i, number in enumerate(numbers):
        j = i + number % (count - i)
        order[i], order[j] = order[j], order[i]
    return order


def integer(low: int, high: int, generator: torch.Generator) -> int:
    """Return a random integer between ``low`` and ``high``, both included (the paper's ``randint``)."""
    import torch

    return int(torch.randint(low, high + 1, (), generator=generator))
