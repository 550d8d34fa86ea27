"""Cosine: the cosine similarity to the class means with a trainable scale, logit_c = s · cos(z, μ_c).

The classifier of Gidaris and Komodakis (2018) and of the "Baseline++" of Chen et al. (2019), with class means instead of
trained weight vectors. Lengths of features do not count, so their scale cannot saturate the softmax.
"""

from __future__ import annotations

from typing import NamedTuple

from ..arrays import Array, like, precise, to_numpy, unit_rows
from .gaussian import Start
from .head import PositiveWeights, State, root
from .means import MeansHead
from .scores import Scores


class CosineState(NamedTuple):
    """The state of the cosine head."""

    means: Array  # (C, D)
    scale: Array


class Cosine(MeansHead):
    """C·D parameters, the class means, and the scale s."""

    name = "cosine"
    description = "cosine: similarity to the class mean"
    weight_names = ("scale",)
    weights: PositiveWeights

    def __init__(self, start: Start = (20.0,)) -> None:
        super().__init__()
        self.weights = PositiveWeights(self.weight_names, start)  # type: ignore[arg-type]

    def state_of(self, means: Array) -> State:
        """Return the class means with the scale."""
        return CosineState(means, like(self.weights.values()[0], means))

    def evaluate(self, state: State, query: Array) -> Array:
        """Compute s · cos(z, μ_c)."""
        means, scale = state
        return scale * unit_rows(query) @ unit_rows(means).mT

    def distances(self, support: Array, queries: Array, targets: Array) -> Array:
        """Compute the chord √(2 − 2 cos) between directions."""
        del support
        return root(2 - 2 * unit_rows(queries) @ unit_rows(targets).mT)

    def scores(self) -> Scores:
        """Return the scaled cosines; they share no part."""
        means, scale = (precise(to_numpy(array)) for array in self.configured())
        return CosineScores(scale * unit_rows(means))


class CosineScores(Scores):
    """r = W z / ‖z‖."""

    weight: Array

    def __init__(self, weight: Array) -> None:
        self.keep(weight=weight.mT)

    def __call__(self, z: Array) -> tuple[Array, Array]:
        """Compute r; s is 0."""
        relative = unit_rows(z) @ self.weight
        return relative, relative[:, :1] * 0
