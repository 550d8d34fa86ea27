"""Independent, named random number generators from one seed.

Randomness is an explicit argument: no function reads or sets torch's global generator. A generator is
named after its use, so a new use does not change the random numbers of the existing ones.
"""

from __future__ import annotations

import hashlib

import torch


def make_generator(seed: int, *name: str | int) -> torch.Generator:
    """Return a CPU generator that depends on ``seed`` and on ``name``, its use."""
    text = "/".join([str(int(seed)), *map(str, name)])
    digest = hashlib.sha256(text.encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)


def permutation(count: int, generator: torch.Generator) -> torch.Tensor:
    """Return a random permutation of ``range(count)``."""
    return torch.randperm(count, generator=generator)


def integer(low: int, high: int, generator: torch.Generator) -> int:
    """Return a random integer between ``low`` and ``high``, both included (the paper's ``randint``)."""
    return int(torch.randint(low, high + 1, (), generator=generator))
