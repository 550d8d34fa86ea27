"""Sums of scores over clients against the assessment of all images in one place."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from filmtransfer.errors import InputError
from filmtransfer.federated.scores import (
    OWN,
    SCORE_SHAPES,
    TEST,
    LabelledFeatures,
    SummedScores,
    check_histogram,
    check_scores,
    held_out_scores,
)
from filmtransfer.heads import Statistics, make_head
from filmtransfer.model.score_sums import BINS, ScoreSums
from filmtransfer.training.assess.calibration import fit_temperature, lowest_temperature

CLASSES, FEATURES = 4, 16


def client_images(seed: int, counts: tuple[int, ...]) -> LabelledFeatures:
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(CLASSES), counts)
    centres = np.random.default_rng(99).normal(0, 1, (CLASSES, FEATURES))
    features = centres[labels] + rng.normal(0, 1, (len(labels), FEATURES))
    return LabelledFeatures(features.astype(np.float32), labels)


def federation(name: str):
    """Return a head, the statistics of three clients and their images; class 3 has one image in all."""
    head = make_head(name)
    clients = [client_images(0, (3, 2, 0, 1)), client_images(1, (0, 4, 5, 0)), client_images(2, (1, 0, 2, 0))]
    parts = [Statistics.of(c.features, c.labels, CLASSES, head.scatter) for c in clients]
    return head, reduce(lambda a, b: a + b, parts), clients


@pytest.mark.parametrize("name", ["protonets", "lda", "cosine"])
def test_the_sums_are_those_of_the_pooled_leave_one_out_images(name):
    """Oracle: for each client and fold the head of all other images, built from features."""
    head, total, clients = federation(name)
    scores = [held_out_scores(head, total, own, None, [OWN]) for own in clients]
    arrays = [each.sums() for each in scores]
    for part in arrays:
        check_scores(part)
    summed = {key: sum(part[key] for part in arrays) for key in SCORE_SHAPES}
    used = SummedScores.read(summed)
    assert used.count == 17  # all but the only image of class 3

    logits = np.concatenate([each.logits for each in scores])
    labels = np.concatenate([each.labels for each in scores])
    assert used.correct == int((logits.argmax(1) == labels).sum())
    assert lowest_temperature(used.losses) == pytest.approx(fit_temperature(logits, labels), rel=2e-3)
    pairs = np.stack([np.concatenate([each.cosines for each in scores]), logits.max(1)], 1)
    sums = ScoreSums.of(used.moments)
    np.testing.assert_allclose(sums.mean, pairs.mean(0), rtol=1e-9)
    np.testing.assert_allclose(sums.spread, pairs.std(0, ddof=1), rtol=1e-6)
    standardised = ((pairs - sums.mean) / sums.spread).sum(1)
    assert sums.deviation == pytest.approx(standardised.std(ddof=1), rel=1e-6)


def test_only_the_requested_kinds_of_images_count():
    head, total, clients = federation("protonets")
    test = client_images(7, (2, 2, 0, 1))
    own, tests, both, none = (
        held_out_scores(head, total, clients[1], test, kinds) for kinds in ([OWN], [TEST], [OWN, TEST], [])
    )
    assert (len(own.labels), len(tests.labels), len(none.labels)) == (9, 5, 0)
    np.testing.assert_array_equal(both.logits, np.concatenate([own.logits, tests.logits]))
    assert len(held_out_scores(head, total, clients[1], None, [TEST]).labels) == 0


def test_test_images_are_classified_by_the_complete_head():
    head, total, clients = federation("lda")
    test = client_images(7, (2, 2, 0, 1))
    scores = held_out_scores(head, total, clients[0], test, [TEST])
    everything = [np.concatenate([getattr(c, key) for c in clients]) for key in ("features", "labels")]
    expected = make_head("lda").configure(*everything)
    np.testing.assert_allclose(scores.logits, expected.logits(test.features), rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(scores.labels, test.labels)


def test_sums_that_do_not_include_the_images_are_refused():
    head, total, clients = federation("protonets")
    others = total - Statistics.of(clients[1].features, clients[1].labels, CLASSES, "none")
    with pytest.raises(InputError, match="do not include the images"):
        held_out_scores(head, others, clients[1], None, [OWN])


def valid_sums() -> dict[str, np.ndarray]:
    head, total, clients = federation("protonets")
    return held_out_scores(head, total, clients[0], None, [OWN]).sums()


@pytest.mark.parametrize(
    ("name", "index", "value"),
    [
        ("correct", 0, 99.0),
        ("correct", 0, -1.0),
        ("moments", 0, 2.5),
        ("losses", 5, -3.0),
        ("losses", 0, np.nan),
    ],
)
def test_impossible_sums_are_refused(name, index, value):
    arrays = valid_sums()
    check_scores(arrays)
    arrays[name][index] = value
    with pytest.raises(InputError):
        check_scores(arrays)


def test_other_arrays_are_refused():
    with pytest.raises(InputError, match="shapes"):
        check_scores({})
    with pytest.raises(InputError, match="shapes"):
        check_histogram({"histogram": np.zeros(3)})
    with pytest.raises(InputError, match="negative"):
        check_histogram({"histogram": np.full(BINS, -1.0)})
