"""Calibration: temperature scaling with a prior on the temperature, log-loss, and the expected calibration error.

The temperature T of p(y | x) = softmax(logits / T + log π) is the one that makes the true classes of leave-one-out images
most probable, under equal priors (a prior says how often classes occur, not how confident the features are),

    min_T  Σ_n −log p_T(y_n | x_n) + ρ(log T / σ)        ρ(u) = log(1 + u²) for u > 0,  u² / 2 for u < 0

ρ keeps it near 1 where there are few images. Confident mistakes are strong evidence, and the Cauchy side lets T grow: the
paper's ProtoNets need T far above 1. That a few images were all correct is weak evidence, but would drive T to 0
(docs/log.md).

The sum over images is one over the clients of a federation as well: each sends its part of it at a fixed grid of
temperatures (``loss_curve``), and the sum of the parts has the same minimum (``lowest_temperature``).
"""

from __future__ import annotations

import math

import numpy as np

from ...model.predictor import log_posterior

SPREAD = 0.2  # σ, chosen on eight sets (docs/log.md)
COLDEST, HOTTEST = 0.02, 1e5
GRID, FINER_GRID = 65, 33
CURVE = 513  # points of a loss curve: a factor of 1.03 between two temperatures, and a parabola between the points


def fit_temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """Return T by a grid over the range, and then finer ones around the lowest point (scipy takes longer to import)."""
    logits = logits.astype(np.float64)

    def loss(log: float) -> float:
        return len(labels) * log_loss(log_posterior(logits, temperature=math.exp(log)), labels) + _penalty(
            log / SPREAD
        )

    low, high = math.log(COLDEST), math.log(HOTTEST)
    for points in (GRID, FINER_GRID, FINER_GRID, FINER_GRID):
        grid = np.linspace(low, high, points).tolist()
        lowest = min(range(1, points - 1), key=lambda i: loss(grid[i]))
        low, high = grid[lowest - 1], grid[lowest + 1]
    return round(math.exp(grid[lowest]), 4)


def log_temperatures() -> np.ndarray:
    """Return log T at the points of a loss curve (CURVE)."""
    return np.linspace(math.log(COLDEST), math.log(HOTTEST), CURVE)


def loss_curve(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Compute Σ_n −log p_T(y_n | x_n) at each of ``log_temperatures`` (CURVE); curves of disjoint images can be added."""
    if len(labels) == 0:
        return np.zeros(CURVE)
    logits = logits.astype(np.float64)
    return np.array(
        [
            len(labels) * log_loss(log_posterior(logits, temperature=math.exp(log)), labels)
            for log in log_temperatures().tolist()
        ]
    )


def lowest_temperature(curve: np.ndarray) -> float:
    """Return T from the loss curve of all images: ``fit_temperature`` where nobody has all logits."""
    logs = log_temperatures()
    total = curve + np.array([_penalty(log / SPREAD) for log in logs.tolist()])
    lowest = 1 + int(total[1:-1].argmin())
    before, here, after = total[lowest - 1 : lowest + 2].tolist()
    bend = before - 2 * here + after
    step = (
        (before - after) / (2 * bend) if bend > 0 else 0.0
    )  # the vertex of the parabola through three points
    return round(math.exp(float(logs[lowest]) + step * float(logs[1] - logs[0])), 4)


def loss_at(curve: np.ndarray, temperature: float) -> float:
    """Return Σ_n −log p_T(y_n | x_n) of a loss curve at one temperature, by linear interpolation."""
    return float(np.interp(math.log(temperature), log_temperatures(), curve))


def _penalty(u: float) -> float:
    """Compute ρ: a Cauchy prior above T = 1, a Gaussian one below."""
    return math.log1p(u * u) if u > 0 else u * u / 2


def log_loss(log_probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Compute the mean of −log p(true class)."""
    return -float(log_probabilities[np.arange(len(labels)), labels].mean())


def calibration_error(probabilities: np.ndarray, labels: np.ndarray, bins: int = 15) -> float:
    """Compute the ECE: the mean gap between confidence and accuracy over equal-width bins of confidence."""
    confidence, predicted = probabilities.max(1), probabilities.argmax(1)
    correct = (predicted == labels).astype(np.float64)
    bin_of = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = [
        abs(float(correct[bin_of == b].mean() - confidence[bin_of == b].mean())) * int((bin_of == b).sum())
        for b in np.unique(bin_of)
    ]
    return sum(gaps) / len(labels)
