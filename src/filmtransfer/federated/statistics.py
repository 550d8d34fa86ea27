"""Summed statistics as arrays of a message: n_c, Σz and, where the head needs it, the upper half of Σzzᵀ."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from ..budgets import MAX_SUM
from ..errors import InputError
from ..heads import Scatter, Statistics


def to_arrays(statistics: Statistics) -> dict[str, np.ndarray]:
    """Return the sums in float64: a covariance is a small difference of large sums."""
    arrays = {"counts": statistics.counts.double().numpy(), "sums": statistics.sums.double().numpy()}
    if statistics.moments is not None:
        moments = statistics.moments.double().numpy()
        arrays["moments"] = moments[np.triu_indices(len(moments))]
    return arrays


def array_shapes(classes: int, features: int, scatter: Scatter) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays of C classes and D features."""
    shapes: dict[str, tuple[int, ...]] = {"counts": (classes,), "sums": (classes, features)}
    if scatter == "task":
        shapes["moments"] = (features * (features + 1) // 2,)
    return shapes


def from_arrays(
    arrays: Mapping[str, np.ndarray], classes: int, features: int, scatter: Scatter
) -> Statistics:
    """Return the statistics of received arrays; raise an error if shapes or values are not possible."""
    if {name: array.shape for name, array in arrays.items()} != array_shapes(classes, features, scatter):
        raise InputError("The statistics do not have the shapes of the federation's classes.")
    if not all(
        (np.abs(array) <= MAX_SUM).all() for array in arrays.values()
    ):  # also not if they are not numbers
        raise InputError("The statistics are not finite, or too large.")
    counts = arrays["counts"]
    if (counts < -1e-3).any() or np.abs(counts - np.rint(counts)).max(initial=0) > 1e-3:
        raise InputError("The counts are not integers of at least 0.")
    moments = None
    if scatter == "task":
        upper = np.zeros((features, features))
        upper[np.triu_indices(features)] = arrays["moments"]
        moments = torch.from_numpy(upper + np.triu(upper, 1).T)
    return Statistics(
        torch.from_numpy(np.rint(counts)).long(), torch.from_numpy(arrays["sums"].astype(np.float64)), moments
    )
