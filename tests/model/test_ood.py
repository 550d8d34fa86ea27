"""OOD scores against their definition, thresholds against simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import stdtrit

from filmtransfer import InputError, UsageError
from filmtransfer.model.ood import OODDetector, student_quantile


def some(seed=0, rows=30, features=16):
    rng = np.random.default_rng(seed)
    labels = np.arange(rows) % 3
    centres = 3 * rng.normal(0, 1, (3, features))
    return centres[labels] + rng.normal(0, 1, (rows, features)), labels


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_score_is_cosine_and_largest_logit_in_units_of_their_spread(dtype):
    features, labels = some()
    features = features.astype(dtype)
    rng = np.random.default_rng(0)
    cosines, left, logits = rng.normal(0.7, 0.1, 12), rng.normal(0, 3, (12, 3)), rng.normal(0, 3, (30, 3))
    detector = OODDetector.fit(features, labels, cosines, left)
    means = np.stack([features[labels == c].mean(0) for c in range(3)])
    for z, row, score in zip(features, logits, detector.scores(features, logits), strict=True):
        cosine = (means @ z / np.linalg.norm(means, axis=1) / np.linalg.norm(z)).max()
        expected = (cosine - cosines.mean()) / cosines.std(ddof=1)
        expected += (row.max() - left.max(1).mean()) / left.max(1).std(ddof=1)
        assert score.item() == pytest.approx(expected, abs=0.02)  # directions are kept in a byte a number
    known = (cosines - cosines.mean()) / cosines.std(ddof=1)
    known += (left.max(1) - left.max(1).mean()) / left.max(1).std(ddof=1)
    np.testing.assert_allclose(detector.known_scores(), np.sort(known), atol=1e-4)


def test_length_says_nothing_but_through_the_head():
    features, labels = some()
    detector = OODDetector.fit(features, labels, np.linspace(0, 1, 5), np.eye(5, 3))
    logits = np.zeros((30, 3))
    np.testing.assert_allclose(detector.scores(features, logits), detector.scores(7 * features, logits))


def pairs(scores: np.ndarray) -> np.ndarray:
    """Known images whose logits say nothing."""
    return np.stack([scores, np.zeros(len(scores))], 1).astype(np.float32)


@pytest.mark.parametrize("count", [10, 20, 200])
@pytest.mark.parametrize("rate", [0.02, 0.05, 0.2])
def test_false_alarms_come_at_the_stated_rate(count, rate):
    """On average over many sets of scores, each with one more image to try."""
    rng = np.random.default_rng(0)
    alarms = []
    for _ in range(3000):
        scores = rng.normal(0.8, 0.1, count + 1)
        detector = OODDetector(np.ones((1, 1), np.int8), pairs(scores[1:]))
        (here,) = detector._standardise(pairs(scores[:1]))  # as the features of such an image would be
        alarms.append(here < detector.threshold(rate))
    error = 4 * np.sqrt(rate * (1 - rate) / 3000)
    # Between two of few scores the empirical quantile takes the lower one: at most one image in count + 1 fewer.
    assert rate - error - 1 / (count + 1) < np.mean(alarms) < rate + error


def test_a_threshold_needs_images_and_a_possible_rate():
    few = OODDetector(np.zeros((2, 4), np.int8), pairs(np.array([0.5, 0.6])))
    with pytest.raises(InputError, match="too few"):
        few.threshold(0.05)
    enough = OODDetector(np.zeros((2, 4), np.int8), pairs(np.linspace(0, 1, 30)))
    for wrong in (0.0, -1.0, 0.5, 2.0, float("nan")):
        with pytest.raises(UsageError, match="false-alarm"):
            enough.threshold(wrong)


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 9, 10, 37, 58, 400])
@pytest.mark.parametrize("probability", [0.51, 0.8, 0.95, 0.98, 0.999])
def test_quantiles_of_students_t_are_scipys(freedom, probability):
    assert student_quantile(probability, freedom) == pytest.approx(stdtrit(freedom, probability), rel=1e-9)
