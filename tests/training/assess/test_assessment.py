"""Left-out images against heads rebuilt by hand; temperature against a grid; the estimate counts unseen images only."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from filmtransfer.heads import make_head
from filmtransfer.training.assess.assessment import SPREAD, calibration_error, judge, log_loss, temperature
from filmtransfer.training.assess.leave_one_out import ROUNDS, leave_out

HEADS = ("lda", "qda", "protonets", "linear")


def some(counts=(5, 3, 4), features=12, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    centres = torch.randn(len(counts), features, generator=generator, dtype=torch.float64)
    z = centres[labels] + torch.randn(len(labels), features, generator=generator, dtype=torch.float64)
    return z.to(dtype), labels


@pytest.mark.parametrize("name", HEADS)
def test_every_image_is_judged_by_a_head_without_it(name):
    """Change one image at a time: what the head says of it must be a head's word that never saw it."""
    features, labels = some()
    head = make_head(name).double()
    left = leave_out(head, features, labels)
    assert left.index.tolist() == list(range(12))
    for i in (0, 6, 11):
        moved = features.clone()
        moved[i] += 100
        again = leave_out(head, moved, labels)
        here = left.index.tolist().index(i)
        # Its own logits are those of the same head at the moved place: build that head from the rounds' definition.
        others = [j for j in range(12) if j != i]
        unchanged = [
            k for k in others if torch.allclose(left.logits[k], again.logits[k], rtol=1e-6, atol=1e-8)
        ]
        assert unchanged, "images left out in the same round do not see it"
        assert not torch.allclose(left.logits[here], again.logits[here])


@pytest.mark.parametrize("name", ["lda", "qda", "protonets"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_of_each_class_is_left_out_at_a_time(name, dtype):
    """Two images a class: two rounds, so each image is judged by the head of the other half."""
    features, labels = some((2, 2, 2), dtype=dtype)
    head = make_head(name).to(dtype)
    left = leave_out(head, features, labels, seed=3)
    halves = set()
    for i in range(6):
        for first in range(8):
            half = [2 * c + ((first >> c) & 1) for c in range(3)]
            rest = [j for j in range(6) if j not in half]
            if i not in half:
                continue
            with torch.no_grad():
                said = make_head(name).to(dtype).configure(features[rest], labels[rest]).logits(features[[i]])
            if torch.allclose(said.double(), left.logits[[i]], rtol=1e-4, atol=1e-4):
                halves.add(tuple(half))
    assert len(halves) == 2, "each image has a round, and there are two"


def test_the_only_image_of_a_class_stays_in():
    features, labels = some((1, 3, 3))
    left = leave_out(make_head("lda").double(), features, labels)
    assert left.index.tolist() == [1, 2, 3, 4, 5, 6]
    assert left.logits.shape == (6, 3)


def test_large_classes_take_a_bounded_number_of_heads(monkeypatch):
    built = []
    features, labels = some((60, 50), features=4)
    head = make_head("protonets").double()
    build = type(head).build
    monkeypatch.setattr(type(head), "build", lambda self, z, y: built.append(len(y)) or build(self, z, y))
    left = leave_out(head, features, labels)
    assert len(left.index) == 110
    assert len(built) == ROUNDS


def test_the_head_itself_is_not_touched():
    features, labels = some()
    head = make_head("lda").double().configure(features, labels)
    before = [t.clone() for t in head.configured()]
    leave_out(head, features, labels)
    assert all(torch.equal(a, b) for a, b in zip(before, head.configured(), strict=True))


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_the_temperature_is_the_best_of_a_fine_grid(scale):
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(0, 4, (40,), generator=generator)
    logits = scale * (
        torch.randn(40, 4, generator=generator, dtype=torch.float64)
        + torch.nn.functional.one_hot(labels, 4).double()
    )

    def prior(u):
        return math.log1p(u * u) if u > 0 else u * u / 2

    def loss(value):
        return 40 * log_loss(logits / value, labels) + prior(math.log(value) / SPREAD)

    found = temperature(logits, labels)
    best = min(loss(v) for v in np.exp(np.linspace(math.log(0.03), math.log(300), 4000)))
    assert loss(found) == pytest.approx(best, abs=1e-4)
    assert log_loss(logits / found, labels) <= log_loss(logits, labels) + 1e-9


def test_few_images_leave_the_temperature_near_one():
    """Fourteen images, all of them right with a small margin: that is no ground for certainty."""
    right = torch.tensor([[1.0, 0.0]]).repeat(14, 1)
    labels = torch.zeros(14, dtype=torch.long)
    assert 0.7 < temperature(right, labels) < 1.0
    assert 0.5 < temperature(10 * right, labels) <= 1.0


def test_calibration_error_by_hand():
    probabilities = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.4, 0.6]], dtype=torch.float64)
    labels = torch.tensor([0, 1, 0, 1])
    # Two answers at 0.9, one right: gap 0.4. Two at 0.6, both right: gap 0.4.
    assert calibration_error(probabilities, labels) == pytest.approx(0.4)


def test_only_unseen_images_count_where_there_are_enough():
    features, labels = some((8, 8), features=6)
    head = make_head("lda").double()
    unseen = torch.zeros(16, dtype=torch.bool)
    unseen[[0, 1, 8, 9]] = True
    judgement = judge(head, features, labels, unseen, torch.zeros(2), seed=0)
    assert judgement.unseen
    assert judgement.estimate.images == 4
    assert len(judgement.unknown.known) == 4
    assert judgement.used.index.tolist() == [0, 1, 8, 9]
    seen = judge(head, features, labels, torch.zeros(16, dtype=torch.bool), torch.zeros(2), seed=0)
    assert not seen.unseen
    assert seen.estimate.images == 16


def test_without_an_image_to_spare_there_is_no_judgement():
    features, labels = some((1, 1, 1))
    assert judge(make_head("lda").double(), features, labels, labels == 0, torch.zeros(3), seed=0) is None
