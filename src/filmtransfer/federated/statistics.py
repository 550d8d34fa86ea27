"""Summed statistics on their way: n_c, Σz and, for LDA, the upper half of the symmetric Σzzᵀ."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from ..errors import InputError
from ..heads import Statistics


def to_arrays(statistics: Statistics) -> dict[str, np.ndarray]:
    """In float64: a covariance is a small difference of large sums."""
    found = {"counts": statistics.counts.double().numpy(), "sums": statistics.sums.double().numpy()}
    if statistics.moments is not None:
        moments = statistics.moments.double().numpy()
        found["moments"] = moments[np.triu_indices(len(moments))]
    return found


def shapes_of(classes: int, features: int, head: str) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {"counts": (classes,), "sums": (classes, features)}
    if head == "lda":
        found["moments"] = (features * (features + 1) // 2,)
    return found


def from_arrays(arrays: Mapping[str, np.ndarray], classes: int, features: int, head: str) -> Statistics:
    """The inverse; refuses what does not have the shapes of C classes and D features, or is not finite."""
    if {name: array.shape for name, array in arrays.items()} != shapes_of(classes, features, head):
        raise InputError("The statistics that came do not have the shapes of the federation's classes.")
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise InputError("The statistics that came are not finite.")
    counts = arrays["counts"]
    if (counts < -1e-3).any() or np.abs(counts - np.rint(counts)).max(initial=0) > 1e-3:
        raise InputError("The counts that came are not whole numbers of at least 0.")
    moments = None
    if head == "lda":
        upper = np.zeros((features, features))
        upper[np.triu_indices(features)] = arrays["moments"]
        moments = torch.from_numpy(upper + np.triu(upper, 1).T)
    return Statistics(
        torch.from_numpy(np.rint(counts)).long(), torch.from_numpy(arrays["sums"].astype(np.float64)), moments
    )
