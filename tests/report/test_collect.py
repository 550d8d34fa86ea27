"""The data of a report, collected from anything that has an update and a predictor."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from filmtransfer import FewShotClassifier
from filmtransfer.data import LabelledImages
from filmtransfer.errors import InputError
from filmtransfer.heads import make_head
from filmtransfer.model.classification import Classified
from filmtransfer.model.support import digest_of
from filmtransfer.report import (
    PhotoRecorder,
    collect_ood,
    collect_test,
    collect_training,
    collect_update,
    page,
)
from filmtransfer.training.assess import assessment
from filmtransfer.training.callbacks import Callbacks
from tests.conftest import picture
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


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a fine-tuned classifier, what was recorded of its training, its images and its file."""
    images = [picture(c, 10 * c + i) for c in range(3) for i in range(6)]
    recorder, file = PhotoRecorder(), tmp_path_factory.mktemp("trained") / "shapes.safetensors"
    clf = FewShotClassifier(steps=2, image_size=32, keep_statistics=True)
    labelled = LabelledImages.from_memory(
        images, [name for name in ("bars", "disc", "plain") for _ in range(6)]
    )
    clf.fit_images(labelled, Callbacks(on_fitted=recorder.on_training))
    clf.save(file)
    return clf, recorder, images, file


def test_a_file_gives_the_report_of_its_training(trained):
    clf, recorder, images, file = trained
    before = collect_training(clf, recorder, file)
    thumbnails = dict(zip(map(digest_of, images), recorder.thumbnails, strict=True))
    after = collect_update(file, thumbnails)
    assert after.photos.thumbnails == before.photos.thumbnails
    assert (after.title, after.classes, after.unseen, after.sites) == (
        before.title, before.classes, before.unseen, before.sites,
    )  # fmt: skip
    for part in ("predictions", "headline"):
        one, other = getattr(before, part), getattr(after, part)
        assert np.array_equal(one.index, other.index)
        assert np.allclose(one.probabilities, other.probabilities, atol=1e-3)
        assert one.evaluation.accuracy == other.evaluation.accuracy
    assert after.headline.evaluation.accuracy == pytest.approx(
        after.update.results["estimate"]["accuracy"], abs=1e-4
    )
    assert after.deleted == 0
    assert "deleted" not in page(after)


def test_deleted_photos_count_and_are_reported(trained):
    _, recorder, images, file = trained
    thumbnails = dict(zip(map(digest_of, images), recorder.thumbnails, strict=True))
    for image in images[:2]:
        del thumbnails[digest_of(image)]
    data = collect_update(file, thumbnails)
    assert (data.deleted, len(data.photos)) == (2, 18)
    assert "2 of the training photos have been deleted since." in page(data)
    assert "all 18 photos" in page(data)
