"""NOAH's evolutionary search: the subnet that scores best among those with few enough numbers.

A population is drawn; then, generation after generation, the best so far are mutated and crossed. The score is a
function that somebody else gives: with NOAH, the accuracy on held-out images of a supernet set to the subnet.
Population 50, 10 parents, half mutations and half crossings, 20 generations, ten tries for each new subnet:
ZhangYuanhan-AI/NOAH, evolution.py.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..seeding import integer
from .subnets import SearchSpace, Subnet

PARENTS = 10
TRIES = 10


def search(
    score: Callable[[Subnet], float],
    space: SearchSpace,
    limit: int,
    generator: torch.Generator,
    *,
    population: int = 50,
    generations: int = 20,
) -> Subnet:
    """The best subnet found; of equals, the one with fewest numbers.

    No subnet is scored twice. A space that is no larger than what the search may score is scored whole.
    """
    scores: dict[Subnet, float] = {}
    best: list[Subnet] = []

    def parent() -> Subnet:
        return best[integer(0, len(best) - 1, generator)]

    def consider(make: Callable[[], Subnet], wanted: int) -> int:
        """Score subnets not seen before; how many of the wanted are missing."""
        for _ in range(TRIES * wanted):
            if not wanted:
                break
            subnet = space.fit(make(), limit, generator)
            if subnet not in scores:
                scores[subnet] = score(subnet)
                wanted -= 1
        return wanted

    if space.total() <= population * (generations + 1):
        scores = {subnet: score(subnet) for subnet in space.every() if space.parameter_count(subnet) <= limit}
        if not scores:
            raise space.too_tight(limit)
        generations = 0
    else:
        consider(lambda: space.draw(generator), population)
    for _ in range(generations):
        best = sorted(scores, key=scores.__getitem__, reverse=True)[:PARENTS]
        missing = consider(lambda: space.mutate(parent(), generator), population // 2)
        missing += consider(lambda: space.cross(parent(), parent(), generator), -(-population // 2))
        consider(lambda: space.draw(generator), missing)
    return max(scores, key=lambda subnet: (scores[subnet], -space.parameter_count(subnet)))
