"""NOAH's search space: the sizes of Adapter and LoRA and the number of prompts of each block; 0 is none.

A module is in the first blocks, down to one of a few depths, with one of a few sizes in each. The published space has
the sizes 5, 10, 50, 100 and the depths 3, 6, 9, 12 of 12 (ZhangYuanhan-AI/NOAH: experiments/NOAH/supernet/
supernet-B_prompt.yaml).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from ..errors import UsageError
from ..seeding import integer

Subnet = tuple[tuple[int, int, int], ...]  # (Adapter, LoRA, prompts) of each block
Column = tuple[int, ...]  # the size of one module in each block

MUTATION_PROBABILITY = 0.2  # that a mutation changes a module at all (released: m_prob)
DEPTH_PROBABILITY = 0.4  # that the change is of its depth (s_prob)


@dataclass(frozen=True)
class SearchSpace:
    """All subnets of a transformer with the given number of blocks and width."""

    blocks: int
    width: int
    sizes: tuple[int, ...] = (5, 10, 50, 100)

    @property
    def depths(self) -> tuple[int, ...]:
        """The possible depths: quarters of the network."""
        return tuple(sorted({-(-self.blocks * quarter // 4) for quarter in (1, 2, 3, 4)}))

    def parameter_count(self, subnet: Subnet) -> int:
        """Return the number of trainable parameters of a subnet."""
        return sum(
            (adapter * (2 * self.width + 1) + self.width if adapter else 0)
            + lora * 4 * self.width
            + prompts * self.width
            for adapter, lora, prompts in subnet
        )

    def count(self) -> int:
        """Return the number of subnets."""
        columns: int = sum(len(self.sizes) ** depth for depth in self.depths)
        return columns**3

    def subnets(self) -> Iterator[Subnet]:
        """Return all subnets, which only a small space allows."""
        columns = [
            column + (0,) * (self.blocks - depth)
            for depth in self.depths
            for column in itertools.product(self.sizes, repeat=depth)
        ]
        return (_rows(modules) for modules in itertools.product(columns, repeat=3))

    def draw(self, generator: torch.Generator) -> Subnet:
        """Return a random subnet: a depth for each module, then its sizes."""
        return _rows([self._change_depth((0,) * self.blocks, generator) for _ in range(3)])

    def mutate(self, subnet: Subnet, generator: torch.Generator) -> Subnet:
        """Return a subnet with some modules changed, either in depth or in one size.

        The released code changes depths only, so that sizes that were never drawn could not be tried.
        """
        columns = _columns(subnet)
        for i, column in enumerate(columns):
            if _random(generator) < MUTATION_PROBABILITY:
                change = self._change_depth if _random(generator) < DEPTH_PROBABILITY else self._change_size
                columns[i] = change(column, generator)
        return _rows(columns)

    def crossover(self, first: Subnet, second: Subnet, generator: torch.Generator) -> Subnet:
        """Return a subnet that has each module from one of two subnets."""
        pairs = zip(_columns(first), _columns(second), strict=True)
        return _rows([pair[integer(0, 1, generator)] for pair in pairs])

    def shrink(self, subnet: Subnet, limit: int, generator: torch.Generator) -> Subnet:
        """Return a subnet made smaller at random until it has at most ``limit`` parameters.

        The released code discards a subnet above the limit and draws another one, which takes very long if few fit.
        """
        while self.parameter_count(subnet) > limit:
            columns = _columns(subnet)
            smaller = [(m, cut) for m, column in enumerate(columns) for cut in self._smaller(column)]
            if not smaller:
                raise self.limit_error(limit)
            module, column = smaller[integer(0, len(smaller) - 1, generator)]
            columns[module] = column
            subnet = _rows(columns)
        return subnet

    def limit_error(self, limit: int) -> UsageError:
        """Return the error for a limit below the smallest subnet."""
        depth, size = self.depths[0], min(self.sizes)
        least = self.parameter_count(((size, size, size),) * depth)
        return UsageError(f"No subnet has {limit} parameters or fewer.", f"The smallest has {least}.")

    def _change_depth(self, column: Column, generator: torch.Generator) -> Column:
        depth = self.depths[integer(0, len(self.depths) - 1, generator)]
        kept = column[: min(depth, _depth(column))]
        new = tuple(self._size(generator) for _ in range(depth - len(kept)))
        return kept + new + (0,) * (self.blocks - depth)

    def _change_size(self, column: Column, generator: torch.Generator) -> Column:
        block = integer(0, _depth(column) - 1, generator)
        return (*column[:block], self._size(generator), *column[block + 1 :])

    def _size(self, generator: torch.Generator) -> int:
        return self.sizes[integer(0, len(self.sizes) - 1, generator)]

    def _smaller(self, column: Column) -> list[Column]:
        """Return a module one size smaller in one block or, if all sizes are the smallest, one depth shallower."""
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


def _random(generator: torch.Generator) -> float:
    return float(torch.rand((), generator=generator))
