"""Cosine: the cosine similarity to the class means with a trainable scale, logit_c = s · cos(z, μ_c).

The classifier of Gidaris and Komodakis (2018) and of the "Baseline++" of Chen et al. (2019), with class means instead of
trained weight vectors. Lengths of features do not count, so their scale cannot saturate the softmax.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor
from torch.nn import functional as F

from .gaussian import Start
from .head import PositiveWeights, State
from .means import MeansHead
from .scores import Scores


class CosineState(NamedTuple):
    """The state of the cosine head."""

    means: Tensor  # (C, D)
    scale: Tensor


class Cosine(MeansHead):
    """C·D parameters, the class means, and the scale s."""

    name = "cosine"
    description = "cosine: similarity to the class mean"
    weight_names = ("scale",)

    def __init__(self, start: Start = (20.0,)) -> None:
        super().__init__()
        self.weights = PositiveWeights(self.weight_names, start)  # type: ignore[arg-type]

    def state_of(self, means: Tensor) -> State:
        """Return the class means with the scale."""
        return CosineState(means, self.weights.values()[0].to(means))

    def evaluate(self, state: State, query: Tensor) -> Tensor:
        """Compute s · cos(z, μ_c)."""
        means, scale = state
        return scale * F.normalize(query, dim=1) @ F.normalize(means, dim=1).mT

    def distances(self, support: Tensor, queries: Tensor, targets: Tensor) -> Tensor:
        """Compute the chord √(2 − 2 cos) between directions."""
        del support
        cosines = F.normalize(queries, dim=1) @ F.normalize(targets, dim=1).mT
        return (2 - 2 * cosines).clamp(min=0).sqrt()

    def scores(self) -> Scores:
        """Return the scaled cosines; they share no part."""
        means, scale = (tensor.detach().cpu().double() for tensor in self.configured())
        return CosineScores(scale * F.normalize(means, dim=1))


class CosineScores(Scores):
    """r = W z / ‖z‖."""

    weight: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.keep(weight=weight.mT)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Compute r; s is 0."""
        relative = F.normalize(z, dim=1) @ self.weight
        return relative, relative[:, :1] * 0
