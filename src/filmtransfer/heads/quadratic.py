"""What heads with a covariance for each class share: QDA and the head of Simple CNAPs.

Their state has two forms. Where N ≤ D it comes from the centred support rows, and no D×D matrix is formed; else it is
a mean and a Cholesky factor for each class. An update stores the smaller one.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np

from ..arrays import Array, diagonal_matrices, precise, solve_lower, to_numpy, zeros
from .gaussian import Side, use_rows
from .head import Cost, Head, Shapes, State, check_support
from .scores import QuadraticScores, Scores


class Factors(NamedTuple):
    """A mean and the Cholesky factor of a covariance for each class."""

    means: Array  # (C, D)
    cholesky: Array  # (C, D, D)

    def squared_distances(self, query: Array) -> Array:
        """Compute ‖L_c⁻¹(z − μ_c)‖² (Q, C)."""
        offsets = query[None] - self.means[:, None]  # (C, Q, D)
        white = solve_lower(self.cholesky, offsets.mT)
        return (white * white).sum(1).mT

    def scores(self, bias: Array, scale: float) -> Scores:
        """Return b_c − a ‖L_c⁻¹(z − μ_c)‖² as a module."""
        means, lower = (precise(to_numpy(array)) for array in self)
        inverse = solve_lower(lower, np.eye(lower.shape[-1]))
        centre = means.mean(0)
        return QuadraticScores(centre, inverse, means - centre, bias, scale)


class QuadraticHead(Head):
    """A head with a covariance for each class."""

    side: Side

    @abstractmethod
    def build_rows(self, mean: Array, centred: Array, labels: Array, classes: int) -> State:
        """Compute the state from the mean (D) and the centred rows (N, D), in float64 where the device has it."""

    @abstractmethod
    def build_factors(self, mean: Array, centred: Array, labels: Array, classes: int) -> Factors:
        """Compute the Cholesky factors from the mean (D) and the centred rows (N, D)."""

    def build(self, features: Array, labels: Array) -> State:
        """Compute the state on the cheaper side."""
        classes = check_support(features, labels)
        mean = features.mean(0)
        centred = features - mean
        if use_rows(self.side, *features.shape):
            return self.build_rows(mean, centred, labels, classes)
        return self.build_factors(mean, centred, labels, classes)

    def tensors(self) -> dict[str, Array]:
        """Return the centred rows where N ≤ D: the same model as C Cholesky factors, far smaller."""
        state = self.configured()
        if isinstance(state, Factors):
            rows, columns = np.tril_indices(state.cholesky.shape[-1])
            return {"means": state.means, "cholesky": state.cholesky[:, rows, columns]}
        mean, centred, share, *_ = state
        return {"mean": mean, "rows": centred, "labels": share.argmax(1)}

    def restore(self, tensors: Mapping[str, Array], counts: Array) -> Self:
        """Configure the head from either form."""
        if "rows" in tensors:
            state = self.build_rows(tensors["mean"], tensors["rows"], tensors["labels"], len(counts))
            return self.set_state(state, counts)
        means, packed = tensors["means"], tensors["cholesky"]
        classes, features = means.shape
        rows, columns = np.tril_indices(features)
        cholesky = zeros((classes, features, features), packed)
        cholesky[:, rows, columns] = packed
        return self.set_state(Factors(means, cholesky), counts)

    @classmethod
    def restoring_cost(cls, shapes: Shapes, counts: Sequence[int]) -> Cost:
        """Return what ``restore`` takes: of the centred rows, products of N×D numbers and what ``rows_cost`` says."""
        if "rows" not in shapes:
            stored = math.prod(shapes["means"]) + math.prod(shapes["cholesky"])
            return Cost(16 * stored, 4 * stored)
        rows, columns = shapes["rows"]
        entries, operations = cls.rows_cost(rows, counts)
        return Cost(8 * (3 * rows * columns + entries), 2 * rows * rows * columns + operations)

    @classmethod
    @abstractmethod
    def rows_cost(cls, rows: int, counts: Sequence[int]) -> tuple[int, int]:
        """Return how many numbers and operations ``build_rows`` takes within the span of the N rows."""

    @classmethod
    def stored_shapes(cls, classes: int, features: int, examples: int) -> list[Shapes]:
        """Return the shapes of both forms."""
        packed = features * (features + 1) // 2
        return [
            {"mean": (features,), "rows": (examples, features), "labels": (examples,)},
            {"means": (classes, features), "cholesky": (classes, packed)},
        ]


def centring(members: Array) -> Array:
    """Return H_c (C, N, N) of members (C, N), 1 or 0: subtract the mean of a class and map all other rows to 0."""
    outer = members[:, :, None] * members[:, None, :]
    return diagonal_matrices(members) - outer / members.sum(1)[:, None, None]


def query_products(state: State, query: Array) -> tuple[Array, Array]:
    """Compute X(z − m) (Q, N) and ‖z − μ_c‖² (Q, C): all that the rows' side needs of a query."""
    mean, centred, share, gram_share, *_ = state
    z = precise(query) - mean
    x = z @ precise(centred).mT
    return x, (z * z).sum(1)[:, None] - 2 * x @ share + (share * gram_share).sum(0)
