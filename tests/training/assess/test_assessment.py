"""The estimate counts images that fine-tuning has not seen."""

from __future__ import annotations

import numpy as np
import torch

from filmtransfer.heads import make_head
from filmtransfer.training.assess.assessment import assess
from tests.training.assess.support import random_support


def test_only_unseen_images_count_where_there_are_enough():
    features, labels = random_support((8, 8), features=6)
    head = make_head("lda")
    unseen = np.zeros(16, bool)
    unseen[[0, 1, 8, 9]] = True
    assessment = assess(head, features, labels, unseen, np.zeros(2), seed=0)
    assert assessment.unseen
    assert assessment.estimate.images == 4
    assert len(assessment.ood.known) == 4
    assert assessment.used.index.tolist() == [0, 1, 8, 9]
    seen = assess(head, features, labels, np.zeros(16, bool), np.zeros(2), seed=0)
    assert not seen.unseen
    assert seen.estimate.images == 16


def test_without_fine_tuning_no_image_was_seen_however_few_there_are():
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(3, 4)).astype(np.float32), np.array([0, 1, 1])
    head = make_head("protonets").configure(features, labels)
    assessment = assess(head, features, labels, np.ones(3, bool), np.zeros(2), seed=0)
    assert assessment.estimate.images == 2  # fewer than a spread needs
    assert assessment.unseen


def test_without_an_image_to_spare_there_is_no_assessment():
    features, labels = random_support((1, 1, 1))
    assert assess(make_head("lda"), features, labels, labels == 0, np.zeros(3), seed=0) is None


def test_tensors_of_training_are_assessed_as_arrays_are():
    features, labels = random_support((8, 8), dtype=np.float32)
    held_out = np.arange(16) % 2 == 0
    expected = assess(make_head("qda"), features, labels, held_out, np.zeros(2), seed=0)
    head = make_head("qda").to(torch.float32)  # its own weights are a trainable parameter
    tensors = [torch.from_numpy(array) for array in (features, labels, held_out)]
    result = assess(head, *tensors, np.zeros(2), seed=0)
    assert result.temperature == expected.temperature
    assert result.results() == expected.results()
    np.testing.assert_array_equal(result.leave_one_out.logits, expected.leave_one_out.logits)
    np.testing.assert_array_equal(result.ood.known, expected.ood.known)
