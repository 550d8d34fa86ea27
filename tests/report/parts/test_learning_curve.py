"""The learning curve."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from filmtransfer.report.parts import (
    learning_curve,
)
from tests.report.small_report import LABELS, features, report_data


@pytest.mark.parametrize("head", ["lda", "protonets"])
def test_the_curve_rises_with_shots(head):
    labels = np.arange(5).repeat(10)
    about = report_data(labels, features(labels, 1.6), head=head)
    tested = np.ones(50, bool)
    found = learning_curve.cross_validated_curve(about.head, about.photos.features, labels, tested, seed=0)
    assert found is not None
    assert found.shots[0] == 1
    assert found.images == 50
    assert found.mean[-1] > found.mean[0] + 0.1
    assert all(low <= mean <= high for low, mean, high in zip(found.low, found.mean, found.high, strict=True))
    assert found == learning_curve.cross_validated_curve(
        about.head, about.photos.features, labels, tested, seed=0
    ), "one seed, one curve"
    assert "still rises" in learning_curve._verdict(
        replace(found, mean=[0.4 + 0.05 * i for i in range(len(found.shots))])
    )


def test_the_curve_tests_photos_on_heads_built_without_them():
    for seed in range(3):
        held_out = np.zeros(32, bool)
        held_out[::3] = True
        splits = learning_curve._folds(LABELS, held_out, 4, np.random.default_rng(seed))
        tested = np.sort(np.concatenate([test for _, test in splits]))
        assert tested.tolist() == np.flatnonzero(held_out).tolist(), "each once"
        for pool, test in splits:
            assert not set(pool.tolist()) & set(test.tolist())
            assert np.unique(LABELS[pool]).tolist() == [0, 1, 2, 3]


def test_the_curve_of_a_test_ends_at_its_accuracy():
    z, fresh = features(LABELS, 1.0), features(LABELS, 1.0, seed=0)
    about = report_data(LABELS, z)
    found = learning_curve.tested_curve(about.head, z, LABELS, fresh + 0.3, LABELS, seed=0)
    assert found is not None
    right = float((about.head.logits(fresh + 0.3).argmax(1) == LABELS).mean())
    assert found.mean[-1] == found.low[-1] == found.high[-1] == pytest.approx(right)


def test_shots_are_the_first_of_each_class():
    labels = np.array([0, 1, 1, 0, 1])
    assert learning_curve.first_of_each(labels, np.array([4, 3, 2, 1, 0]), 2).tolist() == [4, 3, 2, 0]


def test_an_accuracy_that_does_not_change_stayed():
    flat = learning_curve.LearningCurve([1, 3, 7], [0.9, 1.0, 1.0], [0.8, 1.0, 1.0], [1.0, 1.0, 1.0], 5, 9)
    assert "the accuracy stayed at 100%." in learning_curve._verdict(flat)
    one = learning_curve.LearningCurve([1, 3, 7], [0.5, 0.8, 0.8], [0.5, 0.8, 0.8], [0.5, 0.8, 0.8], 5, 1)
    assert "As far as one photo can show" in learning_curve._verdict(one)
