"""The head of Simple CNAPs: squared Mahalanobis distances to the class means (Bateni et al., 2020).

    logit_c = −(z − μ_c)ᵀ Q_c⁻¹ (z − μ_c)        Q_c = λ_c·Σ_c + (1 − λ_c)·Σ_task + I,   λ_c = N_c / (N_c + 1)

The more examples a class has, the more its own covariance counts. No half, no determinant, and no trainable weight.
Where N ≤ D no D×D matrix is formed: with the centred rows X and the projection H_c that subtracts the mean of the rows
of class c and maps all other rows to 0,

    Q_c = I + Xᵀ R_c² X        R_c² = a·H_c + b·I,   R_c = (√(a + b) − √b)·H_c + √b·I,   a = λ_c/(N_c−1), b = (1−λ_c)/(N−1)
    dᵀQ_c⁻¹d = ‖d‖² − ‖L_c⁻¹ R_c X d‖²           L_c L_cᵀ = I + R_c XXᵀ R_c
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, get_args

import numpy as np

from ..arrays import Array, cholesky, eye, like, namespace, precise, solve_lower, to_numpy
from ..errors import check_choice
from .gaussian import Side, divide_by, task_distances
from .head import State, memberships
from .quadratic import Factors, QuadraticHead, centring, query_products
from .scores import QuadraticScores, Scores


class MahalanobisRows(NamedTuple):
    """The state on the rows' side."""

    mean: Array  # m (D)
    centred: Array  # X (N, D)
    share: Array  # S (N, C)
    gram_share: Array  # XXᵀS (N, C)
    half: Array  # L_c⁻¹ R_c (C, N, N)


class Mahalanobis(QuadraticHead):
    """C·D(D + 3)/2 parameters by the paper's count; stored by its centred support rows where N ≤ D."""

    name = "mahalanobis"
    description = "Mahalanobis distances of Simple CNAPs"

    def __init__(self, *, side: Side = "auto") -> None:
        super().__init__()
        check_choice("The side", side, get_args(Side))
        self.side: Side = side

    def build_factors(self, mean: Array, centred: Array, labels: Array, classes: int) -> Factors:
        """Compute the Cholesky factors of Q_c in float64, where the device has it."""
        x = precise(centred)
        share, own, of_task = _weights(labels, classes, x)
        means = share.mT @ x
        scatter = x.mT @ x
        factors = []
        for c in range(len(means)):
            within = x[labels == c] - means[c]
            sigma = own[c] * within.mT @ within + of_task[c] * scatter + eye(len(scatter), scatter)
            factors.append(cholesky(sigma))
        return Factors(mean + like(means, mean), like(namespace(x).stack(factors), mean))

    def build_rows(self, mean: Array, centred: Array, labels: Array, classes: int) -> MahalanobisRows:
        """Compute the state from the centred rows."""
        x = precise(centred)
        share, own, of_task = _weights(labels, classes, x)
        gram = x @ x.mT
        project = centring(like(share > 0, x).mT)
        identity, xp = eye(len(gram), gram), namespace(gram)
        both, rest = xp.sqrt(own + of_task), xp.sqrt(of_task)
        root = (both - rest)[:, None, None] * project + rest[:, None, None] * identity
        half = solve_lower(cholesky(identity + root @ gram @ root), root)
        return MahalanobisRows(mean, centred, share, gram @ share, half)

    @classmethod
    def rows_cost(cls, rows: int, counts: Sequence[int]) -> tuple[int, int]:
        """Return how many numbers and operations ``build_rows`` takes within the span of the N rows."""
        return (5 * len(counts) + 2) * rows**2, 6 * len(counts) * rows**3

    def evaluate(self, state: State, query: Array) -> Array:
        """Compute the negative squared distances."""
        if isinstance(state, Factors):
            return -state.squared_distances(query)
        x, norms = query_products(state, query)
        *_, gram_share, half = state
        inner = half @ (x.mT[None] - gram_share.mT[:, :, None])  # (C, N, Q)
        return -(norms - (inner * inner).sum(1).mT)

    def distances(self, support: Array, queries: Array, targets: Array) -> Array:
        """Compute Mahalanobis distances under Σ_task + I (Q, T)."""
        return task_distances(support, queries, targets, np.ones(2), "n-1")

    def scores(self) -> Scores:
        """Return the distances as a module: within the span of the rows a Cholesky factor for each class."""
        state = self.configured()
        if isinstance(state, Factors):
            return state.scores(np.zeros(len(state.means)), 1.0)
        mean, centred, share, _, half = (precise(to_numpy(array)) for array in state)
        left, spread, right = np.linalg.svd(centred, full_matrices=False)
        inner = half @ (left * spread)  # L_c⁻¹ R_c U S (C, N, r)
        root = cholesky(np.eye(len(spread)) - inner.mT @ inner).mT  # of I − (L_c⁻¹R_cUS)ᵀ(L_c⁻¹R_cUS)
        centres = share.mT @ centred @ right.mT
        return QuadraticScores(mean, root, centres, np.zeros(len(root)), 1.0, right.mT)


def _weights(labels: Array, classes: int, rows: Array) -> tuple[Array, Array, Array]:
    """Return 1/N_c by example and class (N, C); λ_c / (N_c − 1) and (1 − λ_c) / (N − 1) by class (C)."""
    share = memberships(labels, classes, rows)
    counts = like((share > 0).sum(0), rows)
    trust = counts / (counts + 1)  # λ_c
    return share, trust / divide_by(counts, "n-1"), (1 - trust) / divide_by(len(rows), "n-1")
