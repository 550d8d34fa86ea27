"""NOAH's search space: for each block, how large an Adapter, a LoRA and how many prompts; 0 is none.

A module stands in the first blocks, down to one of a few depths, with one of a few sizes in each. The published
space has the sizes 5, 10, 50, 100 and the depths 3, 6, 9, 12 of 12 (ZhangYuanhan-AI/NOAH:
experiments/NOAH/supernet/supernet-B_prompt.yaml).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from ..errors import UsageError
from ..seeding import integer

Subnet = tuple[tuple[int, int, int], ...]  # (Adapter, LoRA, prompts) for each block
Column = tuple[int, ...]  # one module's size in each block

CHANGED = 0.2  # the chance that a mutation changes a module at all (released: m_prob)
DEEPENED = 0.4  # the chance that the change is its depth (s_prob)


@dataclass(frozen=True)
class SearchSpace:
    """All subnets of a transformer of so many blocks and such a width."""

    blocks: int
    width: int
    sizes: tuple[int, ...] = (5, 10, 50, 100)

    @property
    def depths(self) -> tuple[int, ...]:
        """Quarters of the network."""
        return tuple(sorted({-(-self.blocks * quarter // 4) for quarter in (1, 2, 3, 4)}))

    def parameter_count(self, subnet: Subnet) -> int:
        """How many numbers a subnet learns."""
        return sum(
            (adapter * (2 * self.width + 1) + self.width if adapter else 0)
            + lora * 4 * self.width
            + prompts * self.width
            for adapter, lora, prompts in subnet
        )

    def total(self) -> int:
        """How many subnets there are."""
        of_one: int = sum(len(self.sizes) ** depth for depth in self.depths)
        return of_one * of_one * of_one

    def every(self) -> Iterator[Subnet]:
        """All of them; the whole of a small space."""
        columns = [
            column + (0,) * (self.blocks - depth)
            for depth in self.depths
            for column in itertools.product(self.sizes, repeat=depth)
        ]
        return (_rows(chosen) for chosen in itertools.product(columns, repeat=3))

    def draw(self, generator: torch.Generator) -> Subnet:
        """A random one: a depth for each module, then its sizes."""
        return _rows([self._deepened((0,) * self.blocks, generator) for _ in range(3)])

    def mutate(self, subnet: Subnet, generator: torch.Generator) -> Subnet:
        """Some modules of a subnet changed: in depth, or in one size.

        The released code changes depths only; then sizes that no draw has brought would never be tried.
        """
        columns = _columns(subnet)
        for i, column in enumerate(columns):
            if _chance(generator) < CHANGED:
                change = self._deepened if _chance(generator) < DEEPENED else self._resized
                columns[i] = change(column, generator)
        return _rows(columns)

    def cross(self, first: Subnet, second: Subnet, generator: torch.Generator) -> Subnet:
        """Each module as one of two subnets has it."""
        pairs = zip(_columns(first), _columns(second), strict=True)
        return _rows([pair[integer(0, 1, generator)] for pair in pairs])

    def fit(self, subnet: Subnet, limit: int, generator: torch.Generator) -> Subnet:
        """Made smaller at random places until it learns no more than ``limit`` numbers.

        The released code throws a subnet above the limit away and draws again, which takes for ever where few fit.
        """
        while self.parameter_count(subnet) > limit:
            columns = _columns(subnet)
            smaller = [(m, cut) for m, column in enumerate(columns) for cut in self._smaller(column)]
            if not smaller:
                raise self.too_tight(limit)
            module, column = smaller[integer(0, len(smaller) - 1, generator)]
            columns[module] = column
            subnet = _rows(columns)
        return subnet

    def too_tight(self, limit: int) -> UsageError:
        """The error for a limit that no subnet keeps."""
        depth, size = self.depths[0], min(self.sizes)
        least = self.parameter_count(((size, size, size),) * depth)
        return UsageError(f"No subnet has {limit} numbers or fewer.", f"The smallest has {least}.")

    def _deepened(self, column: Column, generator: torch.Generator) -> Column:
        depth = self.depths[integer(0, len(self.depths) - 1, generator)]
        kept = column[: min(depth, _depth(column))]
        new = tuple(self._size(generator) for _ in range(depth - len(kept)))
        return kept + new + (0,) * (self.blocks - depth)

    def _resized(self, column: Column, generator: torch.Generator) -> Column:
        place = integer(0, _depth(column) - 1, generator)
        return (*column[:place], self._size(generator), *column[place + 1 :])

    def _size(self, generator: torch.Generator) -> int:
        return self.sizes[integer(0, len(self.sizes) - 1, generator)]

    def _smaller(self, column: Column) -> list[Column]:
        """A module one size smaller at one place, or, where all are the smallest, one depth shallower."""
        cuts = [
            (*column[:i], max(s for s in self.sizes if s < size), *column[i + 1 :])
            for i, size in enumerate(column)
            if size > min(self.sizes)
        ]
        shallower = [depth for depth in self.depths if depth < _depth(column)]
        if not cuts and shallower:
            cuts = [column[: shallower[-1]] + (0,) * (self.blocks - shallower[-1])]
        return cuts


def _columns(subnet: Subnet) -> list[Column]:
    return list(zip(*subnet, strict=True))


def _rows(columns: Sequence[Column]) -> Subnet:
    adapter, lora, prompts = columns
    return tuple(zip(adapter, lora, prompts, strict=True))


def _depth(column: Column) -> int:
    return sum(size > 0 for size in column)


def _chance(generator: torch.Generator) -> float:
    return float(torch.rand((), generator=generator))
