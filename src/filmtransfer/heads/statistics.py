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

import torch
from torch import Tensor

from ..errors import InputError, check_choice

Scatter = Literal["none", "task", "class"]


@dataclass(frozen=True)
class Statistics:
    """Counts (C), sums (C, D) and second moments: none, (D, D) or (C, D, D)."""

    counts: Tensor
    sums: Tensor
    moments: Tensor | None = None
    dtype: torch.dtype = torch.float32  # of the features: heads built from this are cast to it

    @classmethod
    def of(
        cls, features: Tensor, labels: Tensor, classes: int | None = None, scatter: Scatter = "task"
    ) -> Statistics:
        """Compute the statistics of features (N, D) with labels in 0 … C−1; classes may be empty."""
        check_choice("scatter", scatter, get_args(Scatter))
        count = int(labels.max()) + 1 if classes is None else classes
        z = features.cpu().double()  # sums travel and are kept; not every GPU has float64
        onehot = torch.nn.functional.one_hot(labels, count).double()
        moments = None
        if scatter == "task":
            moments = z.mT @ z
        elif scatter == "class":
            moments = torch.stack([z[labels == c].mT @ z[labels == c] for c in range(count)])
        return cls(onehot.sum(0).long(), onehot.mT @ z, moments, features.dtype)

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
        index = torch.as_tensor(list(classes))
        moments = None if self.moments is None else self.moments[index]
        return Statistics(self.counts[index], self.sums[index], moments, self.dtype)

    def means(self) -> Tensor:
        """Compute μ_c (C, D)."""
        if bool((self.counts <= 0).any()):
            raise InputError("A class has no example left.", "Omit it, or add a photo to it.")
        return self.sums / self.counts[:, None]

    def mean(self) -> Tensor:
        """Compute m (D), the mean of all examples."""
        return self.sums.sum(0) / self.counts.sum()

    def scatter_about_mean(self) -> Tensor:
        """Compute Σ (z − m)(z − m)ᵀ over all examples (D, D)."""
        mean = self.mean()
        return _symmetric(self._total() - self.counts.sum() * torch.outer(mean, mean))

    def scatter_within(self) -> Tensor:
        """Compute Σ (z − μ_y)(z − μ_y)ᵀ over all examples (D, D)."""
        means = self.means()
        return _symmetric(self._total() - (means * self.counts[:, None]).mT @ means)

    def scatter_by_class(self) -> Tensor:
        """Compute Σ (z − μ_c)(z − μ_c)ᵀ over the examples of each class (C, D, D)."""
        if self.moments is None or self.moments.ndim != 3:
            raise InputError("These statistics hold no second moments by class.", "Use scatter='class'.")
        means = self.means()
        outer = means[:, :, None] * means[:, None, :]
        return _symmetric(self.moments - self.counts[:, None, None] * outer)

    def _total(self) -> Tensor:
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


def _symmetric(matrix: Tensor) -> Tensor:
    return (matrix + matrix.mT) / 2
