"""QDA: a covariance for each class, Σ_c = e₁·Σ_class + e₂·Σ_task + e₃·I.

    logit_c = −½ (z − μ_c)ᵀ Σ_c⁻¹ (z − μ_c) − ½ log|Σ_c|

On the rows' side (N ≤ D) the identity of lowrank.py is used twice. The classes share Σ₀ = e₃·I + a·XᵀX with
a = e₂/(N−1); each adds Σ_c = Σ₀ + b·YᵀY with its own rows Y = HX_c (H takes their mean away) and
b = e₁/(N_c−1). With (L Lᵀ) = e₃·I + a·XXᵀ, d = z − μ_c and T Tᵀ = I + b·YΣ₀⁻¹Yᵀ (N_c × N_c)

    dᵀΣ_c⁻¹d = dᵀΣ₀⁻¹d − b·‖T⁻¹ YΣ₀⁻¹d‖²         YΣ₀⁻¹d = H ((L Lᵀ)⁻¹ X d)_c
    dᵀΣ₀⁻¹d  = (‖d‖² − a·‖L⁻¹ X d‖²) / e₃        log|Σ_c| = log|Σ₀| + log|T Tᵀ|

One problem of size N×N and C of size N_c×N_c, instead of C of size D×D; a query enters only through ‖z − m‖²
and X(z − m). For a query in the span of the support rows dᵀΣ₀⁻¹d is a small difference of large numbers: in
float32 its gradient had three digits left. So this side works in float64 wherever the device has it, and
gives float64 logits; its share of a step is a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import torch
from torch import Tensor, nn

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
        centred = features - mean
        if rows_win(self.side, *features.shape):
            return self.build_rows(mean, centred, labels)
        share = memberships(labels, int(labels.max()) + 1, features)
        means = share.mT @ centred
        within = centred - means[labels.to(means.device)]
        members = torch.nn.functional.one_hot(labels).to(features)
        by_class = torch.einsum("nc,nd,ne->cde", members, within, within)
        scatter = centred.mT @ centred
        return self._build_columns(means + mean, by_class, scatter, torch.bincount(labels))

    def build_rows(self, mean: Tensor, centred: Tensor, labels: Tensor) -> State:
        """The state from the centred rows: what an update file stores of this head."""
        rows, dimension = centred.shape
        precise = _precise(centred)
        share = memberships(labels, int(labels.max()) + 1, precise)
        class_weight, task_weight, ridge = self.weights.values().to(precise)  # e1, e2, e3
        counts = (share > 0).sum(0).to(precise)
        scale = task_weight / divide_by(rows, self.divisor)
        extra = class_weight / divide_by(counts, self.divisor)
        gram = precise @ precise.mT
        cholesky = lowrank.factor(gram, scale, ridge)
        _, solved = lowrank.within(cholesky, gram)  # X Σ₀⁻¹ Xᵀ
        places, mask = _places(labels, precise)
        centring = _centring(mask)
        inner = centring @ solved[places[:, :, None], places[:, None, :]] @ centring
        identity = torch.eye(places.shape[1], dtype=gram.dtype, device=gram.device)
        own = torch.linalg.cholesky(identity + extra[:, None, None] * (inner + inner.mT) / 2)
        root = torch.sqrt(extra)[:, None, None] * centring
        half: Tensor = torch.linalg.solve_triangular(own, root, upper=False)
        log_det = lowrank.log_determinant(cholesky, ridge, dimension) + lowrank.log_determinant_of(own)
        return mean, centred, share, gram @ share, cholesky, places, half, log_det, scale, ridge

    def evaluate(self, state: State, query: Tensor) -> Tensor:
        if len(state) == 3:
            means, cholesky, log_det = state
            offsets = query[None] - means[:, None]  # (C, Q, D)
            white: Tensor = torch.linalg.solve_triangular(cholesky, offsets.mT, upper=False)
            return -((white * white).sum(1).mT + log_det) / 2
        mean, centred, share, gram_share, cholesky, places, half, log_det, scale, ridge = state
        z = _precise(query) - mean
        x = z @ _precise(centred).mT  # (Q, N): all that is needed of the query beside its norm
        norms = (z * z).sum(1, keepdim=True) - 2 * x @ share + (share * gram_share).sum(0)
        of_query, solved = lowrank.within(cholesky, x.mT)  # (N, Q)
        of_means, solved_means = lowrank.within(cholesky, gram_share)  # (N, C)
        shared = _squared_distances(of_query.mT, of_means.mT)  # ‖L⁻¹ X d‖² (Q, C)
        offsets = solved[places] - solved_means.mT.gather(1, places)[:, :, None]  # (C, N_c, Q)
        own = half @ offsets
        return -((norms - scale * shared) / ridge - (own * own).sum(1).mT + log_det) / 2

    def options(self) -> dict[str, str]:
        return {"divisor": self.divisor}

    def compact(self) -> dict[str, Tensor]:
        """The centred support rows where N ≤ D: the same model as C Cholesky factors, far smaller."""
        state = self.configured()
        if len(state) == 3:
            means, cholesky, _ = state
            below = torch.tril_indices(*cholesky.shape[-2:])
            return {"means": means, "cholesky": cholesky[:, below[0], below[1]]}
        mean, centred, share, *_ = state
        return {"mean": mean, "rows": centred, "labels": share.argmax(1)}

    def restore(self, tensors: Mapping[str, Tensor], counts: Tensor) -> Self:
        self.take(counts)
        if "rows" in tensors:
            with torch.no_grad():
                self.state = self.build_rows(tensors["mean"], tensors["rows"], tensors["labels"].cpu())
            return self
        means, packed = tensors["means"], tensors["cholesky"]
        classes, features = means.shape
        below = torch.tril_indices(features, features)
        cholesky = packed.new_zeros(classes, features, features)
        cholesky[:, below[0], below[1]] = packed
        log_det = lowrank.log_determinant_of(cholesky)
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
        of_class = by_class / divide_by(counts.to(by_class), self.divisor)[:, None, None]
        of_task = scatter / divide_by(int(counts.sum()), self.divisor)
        sigma = class_weight * of_class + task_weight * of_task + ridge * identity
        cholesky = torch.linalg.cholesky(sigma).contiguous()  # as a restored one is: solving rounds by layout
        log_det = lowrank.log_determinant_of(cholesky)
        return means, cholesky, log_det


def _precise(x: Tensor) -> Tensor:
    """Float64, where the device has it."""
    return x if x.device.type == "mps" else x.double()


def _places(labels: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """Where the rows of each class stand (C, N_max), and which of these places are real (C, N_max)."""
    groups = [torch.nonzero(labels == c).flatten() for c in range(int(labels.max()) + 1)]
    places = nn.utils.rnn.pad_sequence(groups, batch_first=True)
    mask = nn.utils.rnn.pad_sequence([torch.ones(len(g)) for g in groups], batch_first=True)
    return places.to(like.device), mask.to(like)


def _centring(mask: Tensor) -> Tensor:
    """H (C, N_max, N_max): takes the mean of the real rows away, and the places that are not real."""
    return torch.diag_embed(mask) - mask[:, :, None] * mask[:, None, :] / mask.sum(1)[:, None, None]


def _squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """‖a_i − b_j‖² for all rows of a and b."""
    return (a * a).sum(1, keepdim=True) - 2 * a @ b.mT + (b * b).sum(1)
