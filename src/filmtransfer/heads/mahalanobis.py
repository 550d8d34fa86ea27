"""The head of Simple CNAPs: squared Mahalanobis distances to the class means (Bateni et al., 2020).

    logit_c = −(z − μ_c)ᵀ Q_c⁻¹ (z − μ_c)        Q_c = λ_c·Σ_c + (1 − λ_c)·Σ_task + I,   λ_c = N_c / (N_c + 1)

The more examples a class has, the more its own covariance counts. No half, no determinant, and no trainable weight.
Where N ≤ D no D×D matrix is formed: with the centred rows X and the projection H_c that subtracts the mean of the rows
of class c and maps all other rows to 0,

    Q_c = I + Xᵀ R_c² X        R_c² = a·H_c + b·I,   R_c = (√(a + b) − √b)·H_c + √b·I,   a = λ_c/(N_c−1), b = (1−λ_c)/(N−1)
    dᵀQ_c⁻¹d = ‖d‖² − ‖L_c⁻¹ R_c X d‖²           L_c L_cᵀ = I + R_c XXᵀ R_c
"""

from __future__ import annotations

from typing import NamedTuple, get_args

import torch
from torch import Tensor

from ..errors import check_choice
from .gaussian import Side, divide_by, task_distances
from .head import State, memberships
from .quadratic import Factors, QuadraticHead, centring, precise, query_products
from .scores import QuadraticScores, Scores


class MahalanobisRows(NamedTuple):
    """The state on the rows' side."""

    mean: Tensor  # m (D)
    centred: Tensor  # X (N, D)
    share: Tensor  # S (N, C)
    gram_share: Tensor  # XXᵀS (N, C)
    half: Tensor  # L_c⁻¹ R_c (C, N, N)


class Mahalanobis(QuadraticHead):
    """C·D(D + 3)/2 parameters by the paper's count; stored by its centred support rows where N ≤ D."""

    name = "mahalanobis"
    description = "Mahalanobis distances of Simple CNAPs"

    def __init__(self, *, side: Side = "auto") -> None:
        super().__init__()
        check_choice("The side", side, get_args(Side))
        self.side: Side = side

    def build_factors(self, mean: Tensor, centred: Tensor, labels: Tensor, classes: int) -> Factors:
        """Compute the Cholesky factors of Q_c in float64, where the device has it."""
        x = precise(centred)
        share, own, of_task = _weights(labels, classes, x)
        means = share.mT @ x
        scatter = x.mT @ x
        identity = torch.eye(scatter.shape[0], dtype=scatter.dtype, device=scatter.device)
        factors = []
        for c in range(len(means)):
            within = x[labels == c] - means[c]
            factors.append(
                torch.linalg.cholesky(own[c] * within.mT @ within + of_task[c] * scatter + identity)
            )
        return Factors(mean + means.to(mean), torch.stack(factors).to(mean))

    def build_rows(self, mean: Tensor, centred: Tensor, labels: Tensor, classes: int) -> MahalanobisRows:
        """Compute the state from the centred rows."""
        x = precise(centred)
        share, own, of_task = _weights(labels, classes, x)
        gram = x @ x.mT
        project = centring((share > 0).to(x).mT)
        identity = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
        both, rest = torch.sqrt(own + of_task), torch.sqrt(of_task)
        root = (both - rest)[:, None, None] * project + rest[:, None, None] * identity
        lower = torch.linalg.cholesky(identity + root @ gram @ root)
        half: Tensor = torch.linalg.solve_triangular(lower, root, upper=False)
        return MahalanobisRows(mean, centred, share, gram @ share, half)

    def evaluate(self, state: State, query: Tensor) -> Tensor:
        """Compute the negative squared distances."""
        if isinstance(state, Factors):
            return -state.squared_distances(query)
        x, norms = query_products(state, query)
        *_, gram_share, half = state
        inner = half @ (x.mT[None] - gram_share.mT[:, :, None])  # (C, N, Q)
        return -(norms - (inner * inner).sum(1).mT)

    def distances(self, support: Tensor, queries: Tensor, targets: Tensor) -> Tensor:
        """Compute Mahalanobis distances under Σ_task + I (Q, T)."""
        return task_distances(support, queries, targets, torch.ones(2), "n-1")

    def scores(self) -> Scores:
        """Return the distances as a module: within the span of the rows a Cholesky factor for each class."""
        state = self.configured()
        if isinstance(state, Factors):
            return state.scores(torch.zeros(len(state.means)), 1.0)
        mean, centred, share, _, half = (t.detach().cpu().double() for t in state)
        left, spread, right = torch.linalg.svd(centred, full_matrices=False)
        inner = half @ (left * spread)  # L_c⁻¹ R_c U S (C, N, r)
        identity = torch.eye(len(spread), dtype=inner.dtype)
        root = torch.linalg.cholesky(identity - inner.mT @ inner).mT  # of I − (L_c⁻¹R_cUS)ᵀ(L_c⁻¹R_cUS)
        centres = share.mT @ centred @ right.mT
        return QuadraticScores(mean, root, centres, torch.zeros(len(root)), 1.0, right.mT)


def _weights(labels: Tensor, classes: int, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return 1/N_c by example and class (N, C); λ_c / (N_c − 1) and (1 − λ_c) / (N − 1) by class (C)."""
    share = memberships(labels, classes, rows)
    counts = (share > 0).sum(0).to(rows)
    trust = counts / (counts + 1)  # λ_c
    return share, trust / divide_by(counts, "n-1"), (1 - trust) / divide_by(len(rows), "n-1")
