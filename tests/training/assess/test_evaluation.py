"""Intervals and confusion."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import binomtest

from filmtransfer.training.assess.evaluation import evaluate, mean_interval, wilson


@pytest.mark.parametrize(("right", "total"), [(0, 5), (5, 5), (7, 10), (930, 1000)])
def test_wilson_is_scipys(right, total):
    theirs = binomtest(right, total).proportion_ci(method="wilson")
    assert wilson(right, total) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_no_images_no_knowledge():
    assert wilson(0, 0) == (0.0, 1.0)


def test_confusion_has_the_truth_by_row():
    result = evaluate(torch.tensor([0, 1, 1, 1]), torch.tensor([0, 0, 1, 1]), 3)
    assert result.confusion.tolist() == [[1, 1, 0], [0, 2, 0], [0, 0, 0]]
    assert result.accuracy == 0.75
    assert result.by_class() == [0.5, 1.0, None]


def test_mean_interval_is_the_papers():
    mean, half = mean_interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert half == pytest.approx(1.96 / math.sqrt(3))
    assert math.isnan(mean_interval([1.0])[1])
