"""NOAH's evolutionary search for the best subnet within a limit of parameters.

A random population is drawn; then the best subnets are mutated and crossed over, generation after generation. The
score is a function given by the caller: with NOAH, the accuracy of the supernet on held-out images.
Population 50, 10 parents, half mutations and half crossovers, 20 generations, ten attempts for each new subnet:
ZhangYuanhan-AI/NOAH, evolution.py.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..seeding import integer
from .search_space import SearchSpace, Subnet

PARENTS = 10
ATTEMPTS = 10


def search(
    score: Callable[[Subnet], float],
    space: SearchSpace,
    limit: int,
    generator: torch.Generator,
    *,
    population: int = 50,
    generations: int = 20,
) -> Subnet:
    """Return the subnet with the highest score; among equals, the one with the fewest parameters.

    No subnet is scored twice. A space that is not larger than the number of scored subnets is searched exhaustively.
    """
    scores: dict[Subnet, float] = {}
    best: list[Subnet] = []

    def parent() -> Subnet:
        return best[integer(0, len(best) - 1, generator)]

    def add(make: Callable[[], Subnet], count: int) -> int:
        """Score ``count`` new subnets; return how many of them could not be found."""
        for _ in range(ATTEMPTS * count):
            if not count:
                break
            subnet = space.shrink(make(), limit, generator)
            if subnet not in scores:
                scores[subnet] = score(subnet)
                count -= 1
        return count

    if space.count() <= population * (generations + 1):
        scores = {
            subnet: score(subnet) for subnet in space.subnets() if space.parameter_count(subnet) <= limit
        }
        if not scores:
            raise space.limit_error(limit)
        generations = 0
    else:
        add(lambda: space.draw(generator), population)
    for _ in range(generations):
        best = sorted(scores, key=scores.__getitem__, reverse=True)[:PARENTS]
        missing = add(lambda: space.mutate(parent(), generator), population // 2)
        missing += add(lambda: space.crossover(parent(), parent(), generator), -(-population // 2))
        add(lambda: space.draw(generator), missing)
    return max(scores, key=lambda subnet: (scores[subnet], -space.parameter_count(subnet)))
