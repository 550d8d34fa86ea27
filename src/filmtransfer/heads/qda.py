"""QDA: a covariance for each class, Σ_c = e₁·Σ_class + e₂·Σ_task + e₃·I.

    logit_c = −½ (z − μ_c)ᵀ Σ_c⁻¹ (z − μ_c) − ½ log|Σ_c|

On the rows' side (N ≤ D) the identity of lowrank.py is used twice. The classes share Σ₀ = e₃·I + a·XᵀX with
a = e₂/(N−1); each adds Σ_c = Σ₀ + b·YᵀY with its own rows Y = HX_c (H subtracts their mean) and
b = e₁/(N_c−1). With (L Lᵀ) = e₃·I + a·XXᵀ, d = z − μ_c and T Tᵀ = I + b·YΣ₀⁻¹Yᵀ (N_c × N_c)

    dᵀΣ_c⁻¹d = dᵀΣ₀⁻¹d − b·‖T⁻¹ YΣ₀⁻¹d‖²         YΣ₀⁻¹d = H ((L Lᵀ)⁻¹ X d)_c
    dᵀΣ₀⁻¹d  = (‖d‖² − a·‖L⁻¹ X d‖²) / e₃        log|Σ_c| = log|Σ₀| + log|T Tᵀ|

One problem of size N×N and C of size N_c×N_c, instead of C of size D×D; a query enters only through ‖z − m‖²
and X(z − m). The small ones are stacked by classes of similar size, each stack padded to its largest class: together
they have at most 4N² entries, however uneven the classes are. For a query in the span of the support rows dᵀΣ₀⁻¹d is a small difference of large values: in
float32 its gradient had three digits left. So this side works in float64 wherever the device has it, and
gives float64 logits; its share of a step is a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..arrays import (
    Array,
    argsort,
    cholesky,
    concatenate,
    contiguous,
    eye,
    labels_like,
    like,
    namespace,
    on_device,
    precise,
    solve_lower,
    stacks_by_size,
    take_along_rows,
    to_numpy,
)
from . import lowrank
from .gaussian import Divisor, GaussianHead, Side, Start, divide_by
from .head import State, memberships, squared_distances
from .quadratic import Factors, QuadraticHead, centring, query_products
from .scores import Scores
from .statistics import Statistics


class QDARows(NamedTuple):
    """The state on the rows' side."""

    mean: Array  # m (D)
    centred: Array  # X (N, D)
    share: Array  # S (N, C)
    gram_share: Array  # XXᵀS (N, C)
    cholesky: Array  # L (N, N)
    stacks: Array  # of classes of similar size: how many, and the size n of the largest (G, 2)
    order: Array  # where each class is among the stacked ones (C)
    rows_of: Array  # the rows of each stacked class, padded: C_g·n entries of each stack
    half: Array  # √b T⁻¹H of each stacked class: C_g·n·n entries of each stack
    log_det: Array  # log|Σ_c| (C)
    scale: Array  # a
    ridge: Array  # e3

    def by_stack(self) -> Iterator[tuple[Array, Array]]:
        """Yield the rows (C_g, n) and the factors (C_g, n, n) of each stack of classes."""
        row = entry = 0
        for classes, size in self.stacks.tolist():
            rows, half = self.rows_of[row:], self.half[entry:]
            row, entry = row + classes * size, entry + classes * size * size
            yield (
                rows[: classes * size].reshape(classes, size),
                half[: classes * size * size].reshape(classes, size, size),
            )


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

    def build_factors(self, mean: Array, centred: Array, labels: Array, classes: int) -> Factors:
        """Compute the Cholesky factors of Σ_c."""
        share = memberships(labels, classes, centred)
        means = share.mT @ centred
        within = centred - means[on_device(labels, means)]
        rows = [within[labels == c] for c in range(classes)]
        by_class = namespace(centred).stack([own.mT @ own for own in rows])
        scatter = centred.mT @ centred
        return self._factors(means + mean, by_class, scatter, namespace(labels).bincount(labels))

    def build_rows(self, mean: Array, centred: Array, labels: Array, classes: int) -> QDARows:
        """Compute the state from the centred rows."""
        x = precise(centred)
        rows, dimension = x.shape
        share = memberships(labels, classes, x)
        class_weight, task_weight, ridge = like(self.weights.values(), x)  # e1, e2, e3
        counts = like((share > 0).sum(0), x)
        scale = task_weight / divide_by(rows, self.divisor)
        extra = (class_weight / divide_by(counts, self.divisor))[:, None, None]
        gram = x @ x.mT
        lower = lowrank.factor(gram, scale, ridge)
        _, solved = lowrank.within(lower, gram)  # X Σ₀⁻¹ Xᵀ
        stacks = stacks_by_size(labels, classes)
        halves, log_dets = zip(
            *(self._stack(solved, index, mask, extra[members]) for members, index, mask in stacks),
            strict=True,
        )
        order = np.argsort(np.concatenate([members for members, _, _ in stacks]))
        own = concatenate(log_dets)[on_device(labels_like(order, x), x)]
        return QDARows(
            mean, centred, share, gram @ share, lower,
            labels_like(np.array([index.shape for _, index, _ in stacks]), x),
            on_device(labels_like(order, x), x),
            on_device(labels_like(np.concatenate([index.reshape(-1) for _, index, _ in stacks]), x), x),
            concatenate([half.reshape(-1) for half in halves]),
            lowrank.log_determinant(lower, ridge, dimension) + own,
            scale, ridge,
        )  # fmt: skip

    def _stack(self, solved: Array, rows: np.ndarray, mask: np.ndarray, extra: Array) -> tuple[Array, Array]:
        """Compute √b T⁻¹H and log|T Tᵀ| of a stack of classes from X Σ₀⁻¹ Xᵀ (N, N) and b."""
        index = on_device(labels_like(rows, solved), solved)
        centre = centring(like(mask, solved))
        inner = centre @ solved[index[:, :, None], index[:, None, :]] @ centre
        own = cholesky(eye(rows.shape[1], solved) + extra * (inner + inner.mT) / 2)
        half = solve_lower(own, namespace(solved).sqrt(extra) * centre)
        return half, lowrank.log_determinant_of(own)

    @classmethod
    def rows_cost(cls, rows: int, counts: Sequence[int]) -> tuple[int, int]:
        """Return how many numbers and operations ``build_rows`` takes within the span of the N rows."""
        padded = [min(2 * count, rows) for count in counts]
        stacked = 5 * sum(count**2 for count in padded)
        return 8 * rows**2 + 3 * rows * len(counts) + stacked, 10 * rows**3 + 6 * sum(n**3 for n in padded)

    def build_from(self, statistics: Statistics) -> State:
        """Compute the Cholesky factors from n_c, Σz and Σzzᵀ of each class."""
        return self._factors(
            statistics.means(),
            statistics.scatter_by_class(),
            statistics.scatter_about_mean(),
            statistics.counts,
        )

    def evaluate(self, state: State, query: Array) -> Array:
        """Compute the log-densities of the classes, less the constant of 2π."""
        if isinstance(state, Factors):
            return -(state.squared_distances(query) + lowrank.log_determinant_of(state.cholesky)) / 2
        x, norms = query_products(state, query)
        assert isinstance(state, QDARows)
        lower = state.cholesky
        of_query, solved = lowrank.within(lower, x.mT)  # (N, Q)
        of_means, solved_means = lowrank.within(lower, state.gram_share)  # (N, C)
        shared = squared_distances(of_query.mT, of_means.mT)  # ‖L⁻¹ X d‖² (Q, C)
        means, own, start = solved_means.mT[argsort(state.order)], [], 0
        for index, half in state.by_stack():
            of_means = take_along_rows(means[start : start + len(index)], index)
            offsets = half @ (solved[index] - of_means[:, :, None])  # (C_g, n, Q)
            own.append((offsets * offsets).sum(1))
            start += len(index)
        within = concatenate(own)[state.order].mT  # (Q, C)
        return -((norms - state.scale * shared) / state.ridge - within + state.log_det) / 2

    def scores(self) -> Scores:
        """Return the log-densities as a module without differences of large values."""
        state = self.configured()
        if isinstance(state, QDARows):
            return QDARowScores(state)
        assert isinstance(state, Factors)
        return state.scores(-lowrank.log_determinant_of(precise(to_numpy(state.cholesky))) / 2, 0.5)

    def _factors(self, means: Array, by_class: Array, scatter: Array, counts: Array) -> Factors:
        class_weight, task_weight, ridge = like(self.weights.values(), means)  # e1, e2, e3
        of_class = by_class / divide_by(like(counts, by_class), self.divisor)[:, None, None]
        of_task = scatter / divide_by(int(counts.sum()), self.divisor)
        sigma = class_weight * of_class + task_weight * of_task + ridge * eye(means.shape[1], means)
        lower = cholesky(sigma)
        return Factors(means, contiguous(lower))  # as a restored one is: solving rounds by layout


class QDARowScores(Scores):
    """QDA from its centred support rows.

    With the singular values X = U S Vᵀ of the centred rows and Λ = e₃ + a·S², the classes' common covariance is
    whitened by v = Λ^(−½) Vᵀ(z − m), and with E_c = half_c (U S Λ^(−½))_c

        −2 logit_c = ‖(I − VVᵀ)(z − m)‖²/e₃ + ‖v‖² − 2 v·v_c + ‖v_c‖² − ‖E_c (v − v_c)‖² + log|Σ_c|
    """

    mean: Array
    basis: Array
    whiten: Array
    middle: Array
    bias: Array
    own: Array
    offset: Array
    members: Array

    def __init__(self, state: QDARows) -> None:
        mean, centred, share, log_det, scale, ridge = (
            precise(to_numpy(array))
            for array in (state.mean, state.centred, state.share, state.log_det, state.scale, state.ridge)
        )
        left, spread, right = np.linalg.svd(centred, full_matrices=False)
        whiten = (ridge + scale * spread**2) ** -0.5
        middle = whiten * (share.mT @ centred @ right.mT)  # v_c (C, r)
        support = left * (spread * whiten)
        own = np.empty_like(support)  # E_c of all classes: a row for each support image (N, r)
        offset = np.empty(len(own))
        members = np.argsort(to_numpy(state.order))
        for rows, half in state.by_stack():
            ours, members = members[: len(rows)], members[len(rows) :]
            for c, index, factor in zip(ours, to_numpy(rows), to_numpy(half), strict=True):
                size = int((share[:, c] > 0).sum())
                own[index[:size]] = factor[:size, :size] @ support[index[:size]]
                offset[index[:size]] = own[index[:size]] @ middle[c]
        self.ridge = float(ridge)
        self.keep(mean=mean, basis=right.mT, whiten=whiten, middle=middle.mT)
        self.keep(bias=-((middle * middle).sum(1) + log_det) / 2)
        self.keep(own=own.mT, offset=offset, members=share > 0)

    def __call__(self, z: Array) -> tuple[Array, Array]:
        """Compute r and s."""
        z = z - self.mean
        within = z @ self.basis
        v = within * self.whiten
        own = v @ self.own - self.offset
        relative = v @ self.middle + self.bias + (own * own) @ self.members / 2
        outside = z - within @ self.basis.T  # the part of z outside the span of the support rows
        distance = (outside * outside).sum(1)[:, None] / self.ridge + (v * v).sum(1)[:, None]
        return relative, -distance / 2
