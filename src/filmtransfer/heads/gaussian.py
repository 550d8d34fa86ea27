"""What the Gaussian heads share: covariance weights e, the divisor, and which side of the algebra is cheaper.

p(y=c | z) ∝ π_c N(z | μ_c, Σ_c). Letters: N support examples, Q query examples, C classes, D features.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Literal, Self, get_args

from ..arrays import Array, at_least, cast, like, to_numpy
from ..errors import check_choice
from . import lowrank
from .head import Head, PositiveWeights, State, map_state, root, squared_distances
from .statistics import Statistics

Divisor = Literal["n-1", "n"]
Side = Literal["auto", "rows", "columns"]
Start = Sequence[float] | Literal["paper"]

# "We initialize e" (paper, Training and Evaluation Details), for the weights a head has.
PAPER_START = {"e1": 0.5, "e2": 0.5, "e3": 1.0}


class GaussianHead(Head):
    """A head with covariances: of the task, weighted by e₂, and a ridge e₃·I; QDA adds e₁ for each class."""

    weights: PositiveWeights

    def __init__(self, start: Start, divisor: Divisor, side: Side) -> None:
        super().__init__()
        paper = isinstance(start, str) and start == "paper"
        values = [PAPER_START[name] for name in self.weight_names] if paper else start
        self.weights = PositiveWeights(self.weight_names, values)  # type: ignore[arg-type]
        check_choice("The covariance divisor", divisor, get_args(Divisor))
        self.divisor: Divisor = divisor
        check_choice("The side", side, get_args(Side))
        self.side: Side = side

    @abstractmethod
    def build_from(self, statistics: Statistics) -> State:
        """Compute the state in float64 from summed statistics."""

    def configure_from(self, statistics: Statistics) -> Self:
        """Configure the head from n_c, Σz and Σzzᵀ: equal to building it from the pooled features."""
        state = map_state(lambda x: cast(x, statistics.dtype), self.build_from(statistics))
        return self.set_state(state, statistics.counts)

    def options(self) -> dict[str, object]:
        """Return the divisor; ``side`` changes no result."""
        return {"divisor": self.divisor}

    def distances(self, support: Array, queries: Array, targets: Array) -> Array:
        """Compute Mahalanobis distances under e₂·Σ_task + e₃·I (Q, T)."""
        return task_distances(support, queries, targets, to_numpy(self.weights.values()), self.divisor)


def task_distances(support: Array, queries: Array, targets: Array, weights: Array, divisor: Divisor) -> Array:
    """Compute Mahalanobis distances under e₂·Σ_task + e₃·I (Q, T), by Woodbury's identity.

    Covariances of single classes are ignored, so that images of different classes can be compared.
    """
    mean = support.mean(0)
    q, t, x = queries - mean, targets - mean, support - mean
    *_, task_weight, ridge = like(weights, x)  # e2, e3
    scale = task_weight / divide_by(len(x), divisor)
    cholesky = lowrank.factor(x @ x.mT, scale, ridge)
    inner_q, inner_t = (lowrank.within(cholesky, x @ rows.mT)[0].mT for rows in (q, t))
    return root((squared_distances(q, t) - scale * squared_distances(inner_q, inner_t)) / ridge)


def divide_by(count: Array, divisor: Divisor) -> Array:
    """Return the divisor of a covariance, for one count or an array; a single example's spread of 0 is divided by 1."""
    less = count - 1 if divisor == "n-1" else count
    return max(less, 1) if isinstance(less, int) else at_least(less, 1)


def use_rows(side: Side, rows: int, columns: int) -> bool:
    """Tell whether to work on the N×N side (rows) or the D×D side (columns)."""
    return rows <= columns if side == "auto" else side == "rows"
