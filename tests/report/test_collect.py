"""The data of a report, collected from anything that has an update and a predictor."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from filmtransfer.errors import InputError
from filmtransfer.heads import make_head
from filmtransfer.model.classification import Classified
from filmtransfer.report import PhotoRecorder, collect_ood, collect_test, page
from filmtransfer.training.assess import assessment
from tests.report.small_report import LABELS, features, update_of

NAMES = ["cup", "key", "pen", "pot"]


@pytest.fixture
def classifier() -> SimpleNamespace:
    """Return what a report needs of a classifier; the backbone is not in the catalogue."""
    z = features(LABELS)
    head = make_head("lda").configure(z, LABELS)
    log_prior, held_out = np.zeros(4), np.ones(len(LABELS), bool)
    assessed = assessment.assess(head, z, LABELS, held_out, log_prior, seed=0)
    update = replace(assessment.with_assessment(update_of(head, NAMES), assessed), temperature=1.7)
    return SimpleNamespace(update_=update, predictor_=update.predictor())


def classify(classifier: SimpleNamespace, z: np.ndarray) -> tuple[PhotoRecorder, Classified]:
    recorder = PhotoRecorder()
    squares = np.random.default_rng(0).integers(0, 255, (len(z), 3, 8, 8), dtype=np.uint8)
    recorder.on_images(squares, [f"test/{i}.jpg" for i in range(len(z))])
    return recorder, Classified(list(range(len(z))), classifier.predictor_.predict(z), [])


def test_a_test_has_the_predictions_of_the_classifier(classifier, tmp_path):
    recorder, classified = classify(classifier, features(LABELS) + 0.1)
    other_recorder, other = classify(classifier, 3 * features(LABELS, seed=9)[:6])
    ood = collect_ood(classifier, other_recorder, other, classified)
    data = collect_test(classifier, recorder, LABELS, classified, tmp_path / "cups.safetensors", ood)
    assert (data.title, data.classes, data.kind) == ("cups", NAMES, "test")
    assert data.head is classifier.predictor_.head
    assert np.allclose(data.predictions.probabilities, classified.probabilities)
    assert data.sites == ["block0", "block1", "block2"]
    assert np.array_equal(ood.scores < ood.threshold, classifier.predictor_.rejected(other.predictions))
    assert "out-of-distribution" in page(data)


def test_without_a_detector_nothing_is_rejected(classifier):
    classifier.predictor_ = replace(classifier.predictor_, ood=None)
    recorder, classified = classify(classifier, features(LABELS))
    with pytest.raises(InputError, match="cannot reject"):
        collect_ood(classifier, recorder, classified, classified)


def test_the_recorder_keeps_the_features_of_training_as_arrays():
    recorder = PhotoRecorder()
    loaded = SimpleNamespace(
        pixels=np.zeros((2, 3, 8, 8), np.uint8), sources=["a", "b"], labels=np.array([0, 1])
    )
    recorder.on_training(loaded, SimpleNamespace(features=torch.ones(2, 5, requires_grad=True)))
    assert type(recorder.features) is type(recorder.labels) is np.ndarray
    assert recorder.features.shape == (2, 5)
