"""Evaluation on labelled images: accuracy with a confidence interval, and the confusion matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...arrays import Array, to_numpy


@dataclass(frozen=True)
class Evaluation:
    """Accuracy, its 95% interval, and the confusion matrix (true class by row)."""

    accuracy: float
    low: float
    high: float
    images: int
    confusion: np.ndarray

    def by_class(self) -> list[float | None]:
        """Return the accuracy of each class; None where it has no image."""
        totals = self.confusion.sum(1).tolist()
        correct = self.confusion.diagonal().tolist()
        return [c / t if t else None for c, t in zip(correct, totals, strict=True)]


def evaluate(predicted: Array, labels: Array, classes: int) -> Evaluation:
    """Compare predicted and true labels (N)."""
    predicted, labels = to_numpy(predicted), to_numpy(labels)
    pairs = np.bincount(labels * classes + predicted, minlength=classes * classes)
    correct, total = int((predicted == labels).sum()), len(labels)
    low, high = wilson(correct, total)
    return Evaluation(correct / total if total else 0.0, low, high, total, pairs.reshape(classes, classes))


def wilson(correct: int, total: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """Compute Wilson's score interval, which holds for few images and near 0 or 1, where ±1.96σ does not.

    It contains correct / total: where that is 0 or 1 the end is exactly so, not almost (rounding).
    """
    if total == 0:
        return 0.0, 1.0
    share = correct / total
    centre = share + z * z / (2 * total)
    spread = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    low = (centre - spread) / scale if correct else 0.0
    high = (centre + spread) / scale if correct < total else 1.0
    return low, high


def mean_interval(values: list[float]) -> tuple[float, float]:
    """Return the mean and half-width of the 95% interval over seeds (the paper's ±: 1.96 standard errors)."""
    mean = sum(values) / len(values)
    if len(values) < 2:
        return mean, float("nan")
    variance = sum((v - mean) ** 2 for v in values) / (len(values) - 1)
    return mean, 1.96 * math.sqrt(variance / len(values))
