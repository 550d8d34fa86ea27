"""Summed statistics as arrays of a message: n_c, Σz and, where the head needs it, the upper half of Σzzᵀ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from ..budgets import MAX_FEATURE
from ..errors import InputError
from ..heads import Scatter, Statistics

TOLERANCE = 1e-3  # of sums that fixed-point numbers have rounded
LARGEST_INTEGER = 2.0**53  # up to which float64 has all integers
DEFINITE = 1e-6  # what rounding may take from a second moment, relative to their mean


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
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise InputError("The statistics are not finite.")
    counts = np.rint(arrays["counts"])
    if not (
        (np.abs(arrays["counts"] - counts) <= TOLERANCE) & (counts >= 0) & (counts <= LARGEST_INTEGER)
    ).all():
        raise InputError("The counts are not integers of at least 0.")
    # These bounds hold for a sum if they hold for its parts.
    limits = {"sums": counts[:, None] * MAX_FEATURE, "moments": counts.sum() * MAX_FEATURE**2}
    if any(
        (np.abs(arrays[name]) > limit + TOLERANCE).any() for name, limit in limits.items() if name in arrays
    ):
        raise InputError("The statistics are too large for so many images.")
    moments = None
    if scatter == "task":
        upper = np.zeros((features, features))
        upper[np.triu_indices(features)] = arrays["moments"]
        moments = torch.from_numpy(upper + np.triu(upper, 1).T)
    return Statistics(
        torch.from_numpy(counts).long(), torch.from_numpy(arrays["sums"].astype(np.float64)), moments
    )


def of_present_classes(statistics: Statistics, classes: Sequence[str]) -> tuple[Statistics, list[str]]:
    """Return the statistics without classes that have no examples, and the others."""
    kept = [c for c, count in enumerate(statistics.counts.tolist()) if count >= 1]
    # Second moments over all classes have nothing of the absent ones.
    present = replace(statistics, counts=statistics.counts[kept], sums=statistics.sums[kept])
    return present, [classes[c] for c in kept]


def check_of_client(statistics: Statistics, classes: Sequence[str], described: Mapping[str, int]) -> None:
    """Raise an error unless these can be the statistics of a client that has described its numbers of images."""
    if statistics.counts.tolist() != [described.get(name, 0) for name in classes]:
        raise InputError("its numbers of images are not those that it described when it connected.")
    if statistics.moments is None:
        return
    counts = statistics.counts.clamp(min=1)[:, None]
    within = statistics.moments - (statistics.sums / counts).mT @ statistics.sums
    level = DEFINITE * statistics.moments.diagonal().mean().clamp(min=DEFINITE)
    if torch.linalg.cholesky_ex(within + level * torch.eye(len(within), dtype=within.dtype)).info:
        raise InputError("its second moments are not those of images with its sums.")
