"""QDA: a covariance for each class, Σ_c = e₁·Σ_class + e₂·Σ_task + e₃·I.

    logit_c = −½ (z − μ_c)ᵀ Σ_c⁻¹ (z − μ_c) − ½ log|Σ_c|

On the rows' side (N ≤ D) class-centred rows are combinations of the centred rows X, so
Σ_c = e₃·I + Xᵀ A_c X with A_c = e₂/(N−1)·I + e₁/(N_c−1)·P_c, and a query enters only through
‖z − m‖² and X(z − m): C problems of size N×N instead of C of size D×D.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import torch
from torch import Tensor

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


class QDA(GaussianHead):
    """Means, a covariance per class (by its low-rank rows where N ≤ D), and (e₁, e₂, e₃)."""

    name = "qda"

    def __init__(
        self,
        start: tuple[float, float, float] = (0.5, 0.5, 1.0),
        *,
        divisor: Divisor = "n-1",
        side: Side = "auto",
    ) -> None:
        super().__init__()
        self.weights = CovarianceWeights(start)
        self.divisor: Divisor = divisor
        self.side: Side = side

    def build(self, features: Tensor, labels: Tensor) -> State:
        check_support(features, labels)
        mean = features.mean(0)
        if rows_win(self.side, *features.shape):
            return self.build_rows(mean, features - mean, labels)
        centred = features - mean
        share = memberships(labels, int(labels.max()) + 1, features)
        means = share.mT @ centred
        within = centred - means[labels]
        members = torch.nn.functional.one_hot(labels).to(features)
        by_class = torch.einsum("nc,nd,ne->cde", members, within, within)
        scatter = centred.mT @ centred
        return self._build_columns(means + mean, by_class, scatter, torch.bincount(labels))

    def build_rows(self, mean: Tensor, centred: Tensor, labels: Tensor) -> State:
        """The state from the centred rows: what an update file stores of this head."""
        rows, dimension = centred.shape
        classes = int(labels.max()) + 1
        share = memberships(labels, classes, centred)
        class_weight, task_weight, ridge = self.weights.values().to(centred)  # e1, e2, e3
        members = torch.nn.functional.one_hot(labels, classes).to(centred).mT  # (C, N)
        counts = members.sum(1)
        projectors = (
            torch.diag_embed(members) - members[:, :, None] * members[:, None, :] / (counts[:, None, None])
        )
        a = task_weight / divide_by(rows, self.divisor)
        b = (class_weight / divide_by(counts, self.divisor))[:, None, None]
        root = lowrank.root_of_projector_mix(a, b, projectors)
        gram = centred @ centred.mT
        cholesky = lowrank.factor(gram, root, ridge)
        half = lowrank.half_inverse(cholesky, root)
        log_det = lowrank.log_determinant(cholesky, ridge, dimension)
        return mean, centred, half, share, gram @ share, log_det, ridge

    def evaluate(self, state: State, query: Tensor) -> Tensor:
        if len(state) == 3:
            means, cholesky, log_det = state
            offsets = query[None] - means[:, None]  # (C, Q, D)
            white: Tensor = torch.linalg.solve_triangular(cholesky, offsets.mT, upper=False)
            return -((white * white).sum(1).mT + log_det) / 2
        mean, centred, half, share, gram_share, log_det, ridge = state
        z = query - mean
        x = z @ centred.mT  # (Q, N): all that is needed of the query beside its norm
        norms = (z * z).sum(1, keepdim=True) - 2 * x @ share + (share * gram_share).sum(0)
        inner = half @ (x.mT - gram_share.mT[:, :, None])  # (C, N, Q)
        return -((norms - (inner * inner).sum(1).mT) / ridge + log_det) / 2

    def options(self) -> dict[str, str]:
        return {"divisor": self.divisor}

    def compact(self) -> dict[str, Tensor]:
        """The centred support rows where N ≤ D: the same model as C Cholesky factors, far smaller."""
        state = self.configured()
        if len(state) == 3:
            means, cholesky, _ = state
            below = torch.tril_indices(*cholesky.shape[-2:])
            return {"means": means, "cholesky": cholesky[:, below[0], below[1]]}
        mean, centred, _, share, *_ = state
        return {"mean": mean, "rows": centred, "labels": share.argmax(1)}

    def restore(self, tensors: Mapping[str, Tensor], counts: Tensor) -> Self:
        self.take(counts)
        if "rows" in tensors:
            with torch.no_grad():
                self.state = self.build_rows(tensors["mean"], tensors["rows"], tensors["labels"])
            return self
        means, packed = tensors["means"], tensors["cholesky"]
        classes, features = means.shape
        below = torch.tril_indices(features, features)
        cholesky = packed.new_zeros(classes, features, features)
        cholesky[:, below[0], below[1]] = packed
        log_det = 2 * torch.log(torch.diagonal(cholesky, dim1=-2, dim2=-1)).sum(-1)
        self.state = (means, cholesky, log_det)
        return self

    @staticmethod
    def updateable(classes: int, features: int) -> int:
        return classes * features + classes * features * (features + 1) // 2 + 3

    def configure_from(self, statistics: Statistics) -> Self:
        """Build the head from n_c, Σz and Σzzᵀ per class."""
        state = self._build_columns(
            statistics.means(),
            statistics.scatter_by_class(),
            statistics.scatter_about_mean(),
            statistics.counts,
        )
        return self.adopt(state, statistics)

    def _build_columns(self, means: Tensor, by_class: Tensor, scatter: Tensor, counts: Tensor) -> State:
        class_weight, task_weight, ridge = self.weights.values().to(means)  # e1, e2, e3
        identity = torch.eye(means.shape[1], dtype=means.dtype, device=means.device)
        of_class = by_class / divide_by(counts, self.divisor)[:, None, None]
        of_task = scatter / divide_by(int(counts.sum()), self.divisor)
        cholesky = torch.linalg.cholesky(class_weight * of_class + task_weight * of_task + ridge * identity)
        log_det = 2 * torch.log(torch.diagonal(cholesky, dim1=-2, dim2=-1)).sum(-1)
        return means, cholesky, log_det
