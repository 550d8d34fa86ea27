"""The estimate counts images that fine-tuning has not seen."""

from __future__ import annotations

import torch

from filmtransfer.heads import make_head
from filmtransfer.training.assess.assessment import assess
from tests.training.assess.support import random_support


def test_only_unseen_images_count_where_there_are_enough():
    features, labels = random_support((8, 8), features=6)
    head = make_head("lda").double()
    unseen = torch.zeros(16, dtype=torch.bool)
    unseen[[0, 1, 8, 9]] = True
    assessment = assess(head, features, labels, unseen, torch.zeros(2), seed=0)
    assert assessment.unseen
    assert assessment.estimate.images == 4
    assert len(assessment.ood.known) == 4
    assert assessment.used.index.tolist() == [0, 1, 8, 9]
    seen = assess(head, features, labels, torch.zeros(16, dtype=torch.bool), torch.zeros(2), seed=0)
    assert not seen.unseen
    assert seen.estimate.images == 16


def test_without_an_image_to_spare_there_is_no_assessment():
    features, labels = random_support((1, 1, 1))
    assert assess(make_head("lda").double(), features, labels, labels == 0, torch.zeros(3), seed=0) is None
