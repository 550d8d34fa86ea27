"""The temperature against a fine grid; the calibration error by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from filmtransfer.model import log_posterior
from filmtransfer.training.assess.calibration import (
    CURVE,
    SPREAD,
    calibration_error,
    fit_temperature,
    log_loss,
    loss_at,
    loss_curve,
    lowest_temperature,
)


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_the_temperature_is_the_best_of_a_fine_grid(scale):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 4, 40)
    logits = scale * (rng.normal(0, 1, (40, 4)) + np.eye(4)[labels])

    def prior(u):
        return math.log1p(u * u) if u > 0 else u * u / 2

    def loss(value):
        return 40 * log_loss(log_posterior(logits, temperature=value), labels) + prior(
            math.log(value) / SPREAD
        )

    best_temperature = fit_temperature(logits, labels)
    best = min(loss(v) for v in np.exp(np.linspace(math.log(0.03), math.log(300), 4000)))
    assert loss(best_temperature) == pytest.approx(best, abs=1e-4)
    assert (
        log_loss(log_posterior(logits, temperature=best_temperature), labels)
        <= log_loss(log_posterior(logits), labels) + 1e-9
    )


def test_few_images_leave_the_temperature_near_one():
    """Fourteen images, all of them right with a small margin: that is no ground for certainty."""
    right = np.tile([1.0, 0.0], (14, 1))
    labels = np.zeros(14, int)
    assert 0.7 < fit_temperature(right, labels) < 1.0
    assert 0.5 < fit_temperature(10 * right, labels) <= 1.0


def test_calibration_error_by_hand():
    probabilities = np.array([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.4, 0.6]])
    labels = np.array([0, 1, 0, 1])
    # Two answers at 0.9, one right: gap 0.4. Two at 0.6, both right: gap 0.4.
    assert calibration_error(probabilities, labels) == pytest.approx(0.4)


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0, 2000.0])
def test_summed_loss_curves_give_the_temperature_of_all_logits(scale):
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 4, 60)
    logits = scale * (rng.normal(0, 1, (60, 4)) + 2 * np.eye(4)[labels])
    parts = np.split(np.arange(60), [7, 30])
    total = sum(loss_curve(logits[part], labels[part]) for part in parts)
    assert lowest_temperature(total) == pytest.approx(fit_temperature(logits, labels), rel=1e-3)
    for temperature in (1.0, fit_temperature(logits, labels)):
        expected = 60 * log_loss(log_posterior(logits, temperature=temperature), labels)
        assert loss_at(total, temperature) == pytest.approx(expected, rel=1e-3)


def test_a_client_without_images_adds_nothing_to_the_curve():
    curve = loss_curve(np.empty((0, 3)), np.empty(0, int))
    assert curve.shape == (CURVE,)
    assert not curve.any()
