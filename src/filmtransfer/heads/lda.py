"""LDA: one covariance for all classes, Σ = e₂·Σ_task + e₃·I.

The quadratic term is the same for every class, so the head is one matrix product (paper, Model
Parameters): logit_c = w_cᵀ z + b_c with w_c = Σ⁻¹(μ_c − m) and b_c = −w_cᵀ m − ½ w_cᵀ(μ_c − m).
Subtracting the mean m of all examples adds the same constant to every logit and keeps them small.

Σ_task is the covariance of all examples about their one mean (paper); ``covariance="pooled"`` is
scikit-learn's within-class one.
"""

from __future__ import annotations

from typing import Literal, get_args

from ..arrays import Array, cholesky, eye, like, on_device
from ..errors import check_choice
from . import lowrank
from .affine import Affine, AffineHead
from .gaussian import Divisor, GaussianHead, Side, Start, divide_by, use_rows
from .head import State, check_support, memberships
from .statistics import Statistics

Covariance = Literal["task", "pooled"]


class LDA(AffineHead, GaussianHead):
    """Linear discriminant analysis: C(D+1) parameters, and the weights (e₂, e₃)."""

    name = "lda"
    description = "LDA: Gaussians with one covariance"
    scatter = "task"
    weight_names = ("e2", "e3")

    def __init__(
        self,
        start: Start = (1.0, 1.0),
        *,
        covariance: Covariance = "task",
        divisor: Divisor = "n-1",
        side: Side = "auto",
    ) -> None:
        super().__init__(start, divisor, side)
        check_choice("The LDA covariance", covariance, get_args(Covariance))
        self.covariance: Covariance = covariance

    def build(self, features: Array, labels: Array) -> State:
        """Compute W and b from support features."""
        classes = check_support(features, labels)
        share = memberships(labels, classes, features)
        mean = features.mean(0)
        centred = features - mean
        if use_rows(self.side, *features.shape):
            weight = self._solve_rows(centred, share, labels, classes)
        else:
            within = self._within(centred, share, labels)
            weight = self._solve_columns(within.mT @ within, share.mT @ centred, len(features), classes)
        return _affine(weight, share.mT @ centred, mean)

    def build_from(self, statistics: Statistics) -> State:
        """Compute W and b from n_c, Σz and Σzzᵀ."""
        mean = statistics.mean()
        centred = statistics.means() - mean
        scatter = (
            statistics.scatter_about_mean() if self.covariance == "task" else statistics.scatter_within()
        )
        weight = self._solve_columns(scatter, centred, int(statistics.counts.sum()), len(statistics.counts))
        return _affine(weight, centred, mean)

    def options(self) -> dict[str, object]:
        """Return which covariance it is, and its divisor."""
        return {"covariance": self.covariance, "divisor": self.divisor}

    def _within(self, centred: Array, share: Array, labels: Array) -> Array:
        """Subtract the class means where the covariance is the pooled one."""
        if self.covariance == "task":
            return centred
        return centred - (share.mT @ centred)[on_device(labels, centred)]

    def _degrees(self, rows: int, classes: int) -> Array:
        """Return the divisor of the scatter matrix; the pooled one has used C degrees of freedom for the means."""
        used = classes - 1 if self.covariance == "pooled" and self.divisor == "n-1" else 0
        return divide_by(rows - used, self.divisor)

    def _solve_rows(self, centred: Array, share: Array, labels: Array, classes: int) -> Array:
        task_weight, ridge = like(self.weights.values(), centred)  # e2, e3
        scale = task_weight / self._degrees(len(centred), classes)
        within = self._within(centred, share, labels)
        lower = lowrank.factor(within @ within.mT, scale, ridge)
        if self.covariance == "task":  # Σ⁻¹ Xᵀ s = Xᵀ (e₃·I + a·K)⁻¹ s
            return lowrank.within(lower, share)[1].mT @ centred
        return lowrank.solve(within, lower, scale, ridge, share.mT @ centred)

    def _solve_columns(self, scatter: Array, targets: Array, rows: int, classes: int) -> Array:
        task_weight, ridge = like(self.weights.values(), scatter)  # e2, e3
        sigma = task_weight / self._degrees(rows, classes) * scatter + ridge * eye(len(scatter), scatter)
        return lowrank.within(cholesky(sigma), targets.mT)[1].mT


def _affine(weight: Array, centred_means: Array, mean: Array) -> Affine:
    return Affine(weight, -(weight @ mean) - (weight * centred_means).sum(1) / 2)
