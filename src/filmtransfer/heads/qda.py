"""QDA: a covariance for each class, Σ_c = e₁·Σ_class + e₂·Σ_task + e₃·I.

    logit_c = −½ (z − μ_c)ᵀ Σ_c⁻¹ (z − μ_c) − ½ log|Σ_c|

On the rows' side (N ≤ D) the identity of lowrank.py is used twice. The classes share Σ₀ = e₃·I + a·XᵀX with
a = e₂/(N−1); each adds Σ_c = Σ₀ + b·YᵀY with its own rows Y = HX_c (H subtracts their mean) and
b = e₁/(N_c−1). With (L Lᵀ) = e₃·I + a·XXᵀ, d = z − μ_c and T Tᵀ = I + b·YΣ₀⁻¹Yᵀ (N_c × N_c)

    dᵀΣ_c⁻¹d = dᵀΣ₀⁻¹d − b·‖T⁻¹ YΣ₀⁻¹d‖²         YΣ₀⁻¹d = H ((L Lᵀ)⁻¹ X d)_c
    dᵀΣ₀⁻¹d  = (‖d‖² − a·‖L⁻¹ X d‖²) / e₃        log|Σ_c| = log|Σ₀| + log|T Tᵀ|

One problem of size N×N and C of size N_c×N_c, instead of C of size D×D; a query enters only through ‖z − m‖²
and X(z − m). For a query in the span of the support rows dᵀΣ₀⁻¹d is a small difference of large values: in
float32 its gradient had three digits left. So this side works in float64 wherever the device has it, and
gives float64 logits; its share of a step is a few milliseconds.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from . import lowrank
from .gaussian import Divisor, GaussianHead, Side, Start, divide_by
from .head import State, memberships, squared_distances
from .quadratic import Factors, QuadraticHead, centring, precise, query_products
from .scores import Scores
from .statistics import Statistics


class QDARows(NamedTuple):
    """The state on the rows' side."""

    mean: Tensor  # m (D)
    centred: Tensor  # X (N, D)
    share: Tensor  # S (N, C)
    gram_share: Tensor  # XXᵀS (N, C)
    cholesky: Tensor  # L (N, N)
    rows_of: Tensor  # the rows of each class, padded (C, N_max)
    half: Tensor  # √b T⁻¹H (C, N_max, N_max)
    log_det: Tensor  # log|Σ_c| (C)
    scale: Tensor  # a
    ridge: Tensor  # e3


class QDA(QuadraticHead, GaussianHead):
    """Quadratic discriminant analysis: a mean and a covariance per class, and (e₁, e₂, e₃)."""

    name = "qda"
    description = "QDA: Gaussians with a covariance each"
    scatter = "class"
    weight_names = ("e1", "e2", "e3")

    def __init__(
        self, start: Start = (0.5, 0.5, 1.0), *, divisor: Divisor = "n-1", side: Side = "auto"
    ) -> None:
        super().__init__(start, divisor, side)

    def build_factors(self, mean: Tensor, centred: Tensor, labels: Tensor, classes: int) -> Factors:
        """Compute the Cholesky factors of Σ_c."""
        share = memberships(labels, classes, centred)
        means = share.mT @ centred
        within = centred - means[labels.to(means.device)]
        members = torch.nn.functional.one_hot(labels).to(centred)
        by_class = torch.einsum("nc,nd,ne->cde", members, within, within)
        scatter = centred.mT @ centred
        return self._factors(means + mean, by_class, scatter, torch.bincount(labels))

    def build_rows(self, mean: Tensor, centred: Tensor, labels: Tensor, classes: int) -> QDARows:
        """Compute the state from the centred rows."""
        x = precise(centred)
        rows, dimension = x.shape
        share = memberships(labels, classes, x)
        class_weight, task_weight, ridge = self.weights.values().to(x)  # e1, e2, e3
        counts = (share > 0).sum(0).to(x)
        scale = task_weight / divide_by(rows, self.divisor)
        extra = class_weight / divide_by(counts, self.divisor)
        gram = x @ x.mT
        cholesky = lowrank.factor(gram, scale, ridge)
        _, solved = lowrank.within(cholesky, gram)  # X Σ₀⁻¹ Xᵀ
        index, mask = _padded_index(labels, classes, x)
        centre = centring(mask)
        inner = centre @ solved[index[:, :, None], index[:, None, :]] @ centre
        identity = torch.eye(index.shape[1], dtype=gram.dtype, device=gram.device)
        own = torch.linalg.cholesky(identity + extra[:, None, None] * (inner + inner.mT) / 2)
        root = torch.sqrt(extra)[:, None, None] * centre
        half: Tensor = torch.linalg.solve_triangular(own, root, upper=False)
        log_det = lowrank.log_determinant(cholesky, ridge, dimension) + lowrank.log_determinant_of(own)
        return QDARows(mean, centred, share, gram @ share, cholesky, index, half, log_det, scale, ridge)

    def build_from(self, statistics: Statistics) -> State:
        """Compute the Cholesky factors from n_c, Σz and Σzzᵀ of each class."""
        return self._factors(
            statistics.means(),
            statistics.scatter_by_class(),
            statistics.scatter_about_mean(),
            statistics.counts,
        )

    def evaluate(self, state: State, query: Tensor) -> Tensor:
        """Compute the log-densities of the classes, less the constant of 2π."""
        if isinstance(state, Factors):
            return -(state.squared_distances(query) + lowrank.log_determinant_of(state.cholesky)) / 2
        x, norms = query_products(state, query)
        *_, gram_share, cholesky, index, half, log_det, scale, ridge = state
        of_query, solved = lowrank.within(cholesky, x.mT)  # (N, Q)
        of_means, solved_means = lowrank.within(cholesky, gram_share)  # (N, C)
        shared = squared_distances(of_query.mT, of_means.mT)  # ‖L⁻¹ X d‖² (Q, C)
        offsets = solved[index] - solved_means.mT.gather(1, index)[:, :, None]  # (C, N_c, Q)
        own = half @ offsets
        return -((norms - scale * shared) / ridge - (own * own).sum(1).mT + log_det) / 2

    def scores(self) -> Scores:
        """Return the log-densities as a module without differences of large values."""
        state = self.configured()
        if isinstance(state, QDARows):
            return QDARowScores(state)
        assert isinstance(state, Factors)
        return state.scores(-lowrank.log_determinant_of(state.cholesky.cpu().double()) / 2, 0.5)

    def _factors(self, means: Tensor, by_class: Tensor, scatter: Tensor, counts: Tensor) -> Factors:
        class_weight, task_weight, ridge = self.weights.values().to(means)  # e1, e2, e3
        identity = torch.eye(means.shape[1], dtype=means.dtype, device=means.device)
        of_class = by_class / divide_by(counts.to(by_class), self.divisor)[:, None, None]
        of_task = scatter / divide_by(int(counts.sum()), self.divisor)
        sigma = class_weight * of_class + task_weight * of_task + ridge * identity
        cholesky = torch.linalg.cholesky(sigma).contiguous()  # as a restored one is: solving rounds by layout
        return Factors(means, cholesky)


class QDARowScores(Scores):
    """QDA from its centred support rows.

    With the singular values X = U S Vᵀ of the centred rows and Λ = e₃ + a·S², the classes' common covariance is
    whitened by v = Λ^(−½) Vᵀ(z − m), and with E_c = half_c (U S Λ^(−½))_c

        −2 logit_c = ‖(I − VVᵀ)(z − m)‖²/e₃ + ‖v‖² − 2 v·v_c + ‖v_c‖² − ‖E_c (v − v_c)‖² + log|Σ_c|
    """

    mean: Tensor
    basis: Tensor
    whiten: Tensor
    middle: Tensor
    bias: Tensor
    own: Tensor
    offset: Tensor

    def __init__(self, state: QDARows) -> None:
        super().__init__()
        mean, centred, share, half, log_det, scale, ridge = (
            tensor.detach().cpu().double()
            for tensor in (
                state.mean, state.centred, state.share, state.half, state.log_det, state.scale, state.ridge,
            )
        )  # fmt: skip
        left, spread, right = torch.linalg.svd(centred, full_matrices=False)
        whiten = (ridge + scale * spread**2) ** -0.5
        middle = whiten * (share.mT @ centred @ right.mT)  # v_c (C, r)
        own = half @ (left * (spread * whiten))[state.rows_of.cpu()]  # E_c (C, N_max, r)
        offset = torch.einsum("cnr,cr->cn", own, middle)
        self.classes, self.rows = own.shape[:2]
        self.ridge = float(ridge)
        self.keep(mean=mean, basis=right.mT, whiten=whiten, middle=middle.mT)
        self.keep(bias=-((middle * middle).sum(1) + log_det) / 2)
        self.keep(own=own.flatten(0, 1).mT, offset=offset.flatten())

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Compute r and s."""
        z = z - self.mean
        within = z @ self.basis
        v = within * self.whiten
        own = (v @ self.own - self.offset).reshape(-1, self.classes, self.rows)
        relative = v @ self.middle + self.bias + (own * own).sum(2) / 2
        outside = z - within @ self.basis.t()  # the part of z outside the span of the support rows
        distance = (outside * outside).sum(1, keepdim=True) / self.ridge + (v * v).sum(1, keepdim=True)
        return relative, -distance / 2


def _padded_index(labels: Tensor, classes: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows of each class (C, N_max), padded, and a mask of the entries that are not padding."""
    groups = [torch.nonzero(labels == c).flatten() for c in range(classes)]
    index = nn.utils.rnn.pad_sequence(groups, batch_first=True)
    mask = nn.utils.rnn.pad_sequence([torch.ones(len(g)) for g in groups], batch_first=True)
    return index.to(like.device), mask.to(like)
