"""Additive sufficient statistics: what a Gaussian head needs of a set of features, and no more.

    n_c = Σ 1,   Σz per class,   Σzzᵀ in all (LDA) or per class (QDA)

They are sums, so sets can be joined (+), taken out again (−) and, where moments are kept by class,
restricted to some classes, without seeing an image again. Sums are kept in float64: a covariance is a small difference of
large sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from ..arrays import Array, cast, dtype_name, namespace, on_cpu, one_hot, precise, to_numpy
from ..errors import InputError, check_choice

Scatter = Literal["none", "task", "class"]


@dataclass(frozen=True)
class Statistics:
    """Counts (C), sums (C, D) and second moments: none, (D, D) or (C, D, D)."""

    counts: Array
    sums: Array
    moments: Array | None = None
    dtype: str = "float32"  # of the features: heads built from this are cast to it

    @classmethod
    def of(
        cls, features: Array, labels: Array, classes: int | None = None, scatter: Scatter = "task"
    ) -> Statistics:
        """Compute the statistics of features (N, D) with labels in 0 … C−1; classes may be empty."""
        check_choice("scatter", scatter, get_args(Scatter))
        count = int(labels.max()) + 1 if classes is None else classes
        z = precise(on_cpu(features))  # sums travel and are kept; not every GPU has float64
        onehot = one_hot(labels, count, z)
        moments = None
        if scatter == "task":
            moments = z.mT @ z
        elif scatter == "class":
            moments = namespace(z).stack([z[labels == c].mT @ z[labels == c] for c in range(count)])
        return cls(cast(onehot.sum(0), "int64"), onehot.mT @ z, moments, dtype_name(features))

    def __add__(self, other: Statistics) -> Statistics:
        return self._combine(other, 1)

    def __sub__(self, other: Statistics) -> Statistics:
        return self._combine(other, -1)

    def select(self, classes: Sequence[int]) -> Statistics:
        """Return the statistics of some of the classes; second moments have to be by class, or none."""
        if self.moments is not None and self.moments.ndim == 2:
            raise InputError(
                "Second moments summed over all classes cannot be divided again.", "Use scatter='class'."
            )
        index = list(classes)
        moments = None if self.moments is None else self.moments[index]
        return Statistics(self.counts[index], self.sums[index], moments, self.dtype)

    def as_numpy(self) -> Statistics:
        """Return the same statistics as numpy arrays."""
        moments = None if self.moments is None else to_numpy(self.moments)
        return Statistics(to_numpy(self.counts), to_numpy(self.sums), moments, self.dtype)

    def means(self) -> Array:
        """Compute μ_c (C, D)."""
        if bool((self.counts <= 0).any()):
            raise InputError("A class has no example left.", "Omit it, or add a photo to it.")
        return self.sums / self.counts[:, None]

    def mean(self) -> Array:
        """Compute m (D), the mean of all examples."""
        return self.sums.sum(0) / self.counts.sum()

    def scatter_about_mean(self) -> Array:
        """Compute Σ (z − m)(z − m)ᵀ over all examples (D, D)."""
        mean = self.mean()
        return _symmetric(self._total() - self.counts.sum() * mean[:, None] * mean)

    def scatter_within(self) -> Array:
        """Compute Σ (z − μ_y)(z − μ_y)ᵀ over all examples (D, D)."""
        means = self.means()
        return _symmetric(self._total() - (means * self.counts[:, None]).mT @ means)

    def scatter_by_class(self) -> Array:
        """Compute Σ (z − μ_c)(z − μ_c)ᵀ over the examples of each class (C, D, D)."""
        if self.moments is None or self.moments.ndim != 3:
            raise InputError("These statistics hold no second moments by class.", "Use scatter='class'.")
        means = self.means()
        outer = means[:, :, None] * means[:, None, :]
        return _symmetric(self.moments - self.counts[:, None, None] * outer)

    def _total(self) -> Array:
        if self.moments is None:
            raise InputError("These statistics hold no second moments.", "Use scatter='task'.")
        return self.moments if self.moments.ndim == 2 else self.moments.sum(0)

    def _combine(self, other: Statistics, sign: int) -> Statistics:
        mine, theirs = self.moments, other.moments
        same = self.sums.shape == other.sums.shape and (
            (mine is None) == (theirs is None)
            and (mine is None or theirs is None or mine.shape == theirs.shape)
        )
        if not same:
            raise InputError(
                "Statistics of different shapes cannot be combined.",
                "They must have the same classes, features and second moments.",
            )
        moments = None if mine is None or theirs is None else mine + sign * theirs
        return Statistics(
            self.counts + sign * other.counts, self.sums + sign * other.sums, moments, self.dtype
        )


def _symmetric(matrix: Array) -> Array:
    return (matrix + matrix.mT) / 2
