"""OOD scores against their definition, thresholds against simulation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import stdtrit

from filmtransfer import InputError, UpdateFileError, UsageError
from filmtransfer.model.ood import OODDetector, student_quantile
from filmtransfer.model.score_sums import BIN_WIDTH, BINS, ScoreSums, histogram_of, moments_of


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


def test_tensors_give_the_scores_of_arrays():
    features, labels = some()
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 3, (30, 3))
    detector = OODDetector.fit(features, labels, rng.normal(0.7, 0.1, 12), rng.normal(0, 3, (12, 3)))
    expected = detector.scores(features, logits)
    tensors = torch.from_numpy(features), torch.from_numpy(logits)
    assert detector.scores(*tensors).dtype == torch.float64
    np.testing.assert_allclose(detector.scores(*tensors).numpy(), expected, rtol=1e-12)
    single = detector.scores(*(tensor.float() for tensor in tensors))
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single.numpy(), expected, atol=1e-5)


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
    with pytest.raises(InputError, match="needs 3 leave-one-out scores; there are two"):
        few.threshold(0.05)
    enough = OODDetector(np.zeros((2, 4), np.int8), pairs(np.linspace(0, 1, 30)))
    for wrong in (0.0, -1.0, 0.5, 2.0, float("nan")):
        with pytest.raises(UsageError, match="false-alarm"):
            enough.threshold(wrong)


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 9, 10, 37, 58, 400, 1000])
@pytest.mark.parametrize("probability", [0.51, 0.8, 0.95, 0.98, 0.999])
def test_quantiles_of_students_t_are_scipys(freedom, probability):
    assert student_quantile(probability, freedom) == pytest.approx(stdtrit(freedom, probability), rel=1e-9)


@pytest.mark.parametrize("freedom", [1001, 5000, 10**9, 10**15])
@pytest.mark.parametrize("probability", [0.51, 0.8, 0.95, 0.98, 0.999])
def test_quantiles_for_many_degrees_of_freedom_need_no_sum(freedom, probability):
    assert student_quantile(probability, freedom) == pytest.approx(stdtrit(freedom, probability), rel=1e-7)


def test_sums_over_more_images_than_there_can_be_are_refused():
    moments = np.array([1e15, 0, 0, 1, 0, 1])
    assert not ScoreSums.of(moments).fits()
    with pytest.raises(UpdateFileError, match="sums of the OOD detector"):
        ScoreSums.read(ScoreSums.of(moments).tensors())


def both_forms(count, seed=0):
    """Return a detector with single scores, and one with sums over the same scores in three parts."""
    rng = np.random.default_rng(seed)
    features, labels = some()
    shared = rng.normal(0, 1, count)
    cosines = 0.7 + 0.1 * (shared + rng.gumbel(0, 1, count))
    logits = -500 + 40 * (shared[:, None] + rng.normal(0, 1, (count, 3)))
    single = OODDetector.fit(features, labels, cosines, logits)
    parts = np.array_split(single.known.astype(np.float64), 3)
    moments = sum(moments_of(part) for part in parts)
    sums = ScoreSums.of(moments)
    counts = sum(histogram_of(((part - sums.mean) / sums.spread).sum(1)) for part in parts)
    directions = single.directions.astype(np.float64)
    return single, OODDetector.from_sums(directions, ScoreSums.of(moments, counts)), (features, logits[:30])


@pytest.mark.parametrize("count", [3, 10, 57, 200, 2000])
@pytest.mark.parametrize("rate", [0.01, 0.05, 0.2])
def test_sums_give_the_scores_and_the_threshold_of_single_scores(count, rate):
    single, summed, (features, _) = both_forms(count)
    logits = np.random.default_rng(1).normal(-500, 60, (30, 3))
    np.testing.assert_allclose(summed.scores(features, logits), single.scores(features, logits), rtol=1e-6)
    assert summed.count == single.count == count
    assert summed.threshold(rate) == pytest.approx(single.threshold(rate), abs=BIN_WIDTH)


def test_sums_without_a_histogram_have_the_bound_of_students_t():
    single, summed, _ = both_forms(40)
    bare = OODDetector.from_sums(single.directions.astype(np.float64), ScoreSums.of(summed.sums.moments))
    assert bare.threshold(0.01) == pytest.approx(single.threshold(0.01), rel=1e-6)
    assert bare.threshold(0.2) == pytest.approx(single.threshold(0.2), abs=0.5)


def test_scores_beyond_the_histogram_count_in_its_outermost_bins():
    counts = histogram_of(np.array([-1e9, -100.0, 0.0, 100.0]))
    assert counts.sum() == 4
    assert counts[0] == 2
    assert counts[-1] == 1
    assert counts[BINS * 2 // 3] == 1


def test_both_forms_survive_the_file():
    for detector in both_forms(80)[:2]:
        again = OODDetector.read(detector.tensors())
        assert again.fits(3, 16)
        assert again.threshold() == detector.threshold()
    with pytest.raises(UpdateFileError, match="not complete"):
        OODDetector.read({"directions": np.ones((3, 16), np.int8), "moments": np.zeros(6)})


@pytest.mark.parametrize(
    "wrong",
    [
        {"moments": np.zeros(5)},
        {"moments": np.zeros(6, np.float32)},
        {"histogram": np.zeros(3, np.int64)},
        {"histogram": np.ones(BINS, np.int64)},  # another number of images than that of the moments
        {"histogram": -np.ones(BINS, np.int64)},
        {"moments": np.full(6, -1.0)},
    ],
)
def test_impossible_sums_are_refused(wrong):
    _, summed, _ = both_forms(80)
    with pytest.raises(UpdateFileError, match="sums of the OOD detector"):
        OODDetector.read(summed.tensors() | wrong)
