"""LDA: one covariance for all classes, Σ = e₂·Σ_task + e₃·I.

The quadratic term is the same for every class, so the head is one matrix product (paper, Model
Parameters): logit_c = w_cᵀ z + b_c with w_c = Σ⁻¹(μ_c − m) and b_c = −w_cᵀ m − ½ w_cᵀ(μ_c − m).
Subtracting the mean m of all examples adds the same number to every logit and keeps them small.

Σ_task is the covariance of all examples about their one mean (paper); ``covariance="pooled"`` is
scikit-learn's within-class one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

import torch
from torch import Tensor

from ..errors import invalid_choice
from . import lowrank
from .gaussian import (
    CovarianceWeights,
    Divisor,
    GaussianHead,
    Side,
    State,
    check_support,
    divide_by,
    memberships,
    rows_win,
)
from .statistics import Statistics

Covariance = Literal["task", "pooled"]


class LDA(GaussianHead):
    """C(D+1) numbers, and the weights (e₂, e₃)."""

    name = "lda"

    def __init__(
        self,
        start: tuple[float, float] = (1.0, 1.0),
        *,
        covariance: Covariance = "task",
        divisor: Divisor = "n-1",
        side: Side = "auto",
    ) -> None:
        super().__init__()
        if covariance not in ("task", "pooled"):
            raise invalid_choice("The LDA covariance", covariance, ("task", "pooled"))
        self.weights = CovarianceWeights(start)
        self.covariance: Covariance = covariance
        self.divisor: Divisor = divisor
        self.side: Side = side

    def build(self, features: Tensor, labels: Tensor) -> State:
        classes = check_support(features, labels)
        share = memberships(labels, classes, features)
        mean = features.mean(0)
        centred = features - mean
        if rows_win(self.side, *features.shape):
            weight = self._solve_rows(centred, share, labels, classes)
        else:
            within = self._within(centred, share, labels)
            weight = self._solve_columns(within.mT @ within, share.mT @ centred, len(features), classes)
        return _compact(weight, share.mT @ centred, mean)

    def evaluate(self, state: State, query: Tensor) -> Tensor:
        weight, bias = state
        return query @ weight.mT + bias

    def options(self) -> dict[str, str]:
        return {"covariance": self.covariance, "divisor": self.divisor}

    def compact(self) -> dict[str, Tensor]:
        weight, bias = self.configured()
        return {"weight": weight, "bias": bias}

    def restore(self, tensors: Mapping[str, Tensor], counts: Tensor) -> Self:
        self.state = (tensors["weight"], tensors["bias"])
        self.take(counts)
        return self

    @staticmethod
    def updateable(classes: int, features: int) -> int:
        return classes * (features + 1) + 2

    def configure_from(self, statistics: Statistics) -> Self:
        """Build the head from n_c, Σz and Σzzᵀ: equal to building it from the pooled features."""
        mean = statistics.mean()
        centred = statistics.means() - mean
        scatter = (
            statistics.scatter_about_mean() if self.covariance == "task" else statistics.scatter_within()
        )
        weight = self._solve_columns(scatter, centred, int(statistics.counts.sum()), len(statistics.counts))
        return self.adopt(_compact(weight, centred, mean), statistics)

    def _within(self, centred: Tensor, share: Tensor, labels: Tensor) -> Tensor:
        return (
            centred
            if self.covariance == "task"
            else centred - (share.mT @ centred)[labels.to(centred.device)]
        )

    def _degrees(self, rows: int, classes: int) -> int:
        """The divisor of the scatter matrix; the pooled one has C means to pay for."""
        spent = classes - 1 if self.covariance == "pooled" and self.divisor == "n-1" else 0
        return int(divide_by(rows - spent, self.divisor))

    def _solve_rows(self, centred: Tensor, share: Tensor, labels: Tensor, classes: int) -> Tensor:
        task_weight, ridge = self.weights.values().to(centred)  # e2, e3
        scale = task_weight / self._degrees(len(centred), classes)
        within = self._within(centred, share, labels)
        cholesky = lowrank.factor(within @ within.mT, scale, ridge)
        if self.covariance == "task":  # Σ⁻¹ Xᵀ s = Xᵀ (e₃·I + a·K)⁻¹ s
            return lowrank.within(cholesky, share)[1].mT @ centred
        return lowrank.solve(within, cholesky, scale, ridge, share.mT @ centred)

    def _solve_columns(self, scatter: Tensor, targets: Tensor, rows: int, classes: int) -> Tensor:
        task_weight, ridge = self.weights.values().to(scatter)  # e2, e3
        identity = torch.eye(scatter.shape[-1], dtype=scatter.dtype, device=scatter.device)
        sigma = task_weight / self._degrees(rows, classes) * scatter + ridge * identity
        return lowrank.within(torch.linalg.cholesky(sigma), targets.mT)[1].mT


def _compact(weight: Tensor, centred_means: Tensor, mean: Tensor) -> State:
    return weight, -(weight @ mean) - (weight * centred_means).sum(1) / 2
