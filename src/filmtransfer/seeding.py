"""One seed, many independent streams.

Randomness is an argument here: nothing reads or sets torch's global generator. A stream
is named after its use, so adding a new use does not disturb the numbers of the others.
"""

from __future__ import annotations

import hashlib

import torch


def generator(seed: int, *name: str | int) -> torch.Generator:
    """A CPU generator for the stream ``name`` of ``seed``."""
    text = "/".join([str(int(seed)), *map(str, name)])
    digest = hashlib.sha256(text.encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)


def permutation(count: int, stream: torch.Generator) -> torch.Tensor:
    """A random order of ``range(count)``."""
    return torch.randperm(count, generator=stream)


def integer(low: int, high: int, stream: torch.Generator) -> int:
    """A random integer with both ends included (the paper's ``randint``)."""
    return int(torch.randint(low, high + 1, (), generator=stream))
