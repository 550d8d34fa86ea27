"""Leave-one-out logits against heads rebuilt by hand."""

from __future__ import annotations

import numpy as np
import pytest

from filmtransfer.heads import HEADS, Statistics, make_head
from filmtransfer.training.assess.leave_one_out import FOLDS, leave_one_out, leave_one_out_of_sums
from tests.training.assess.support import random_support


@pytest.mark.parametrize("name", HEADS)
def test_every_image_is_classified_by_a_head_without_it(name):
    """Change one image at a time: its own logits change, those of images held out with it do not."""
    features, labels = random_support()
    head = make_head(name)
    result = leave_one_out(head, features, labels)
    assert result.index.tolist() == list(range(12))
    for i in (0, 6, 11):
        moved = features.copy()
        moved[i] += 100
        again = leave_one_out(head, moved, labels)
        here = result.index.tolist().index(i)
        others = [j for j in range(12) if j != i]
        unchanged = [
            k for k in others if np.allclose(result.logits[k], again.logits[k], rtol=1e-6, atol=1e-8)
        ]
        assert unchanged, "images held out in the same fold do not depend on it"
        assert not np.allclose(result.logits[here], again.logits[here])


@pytest.mark.parametrize("name", ["lda", "qda", "protonets"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_of_each_class_is_held_out_at_a_time(name, dtype):
    """Two images a class: two folds, so each image is classified by the head of the other half."""
    features, labels = random_support((2, 2, 2), dtype=dtype)
    head = make_head(name)
    result = leave_one_out(head, features, labels, seed=3)
    halves = set()
    for i in range(6):
        for first in range(8):
            half = [2 * c + ((first >> c) & 1) for c in range(3)]
            rest = [j for j in range(6) if j not in half]
            if i not in half:
                continue
            logits = make_head(name).configure(features[rest], labels[rest]).logits(features[[i]])
            if np.allclose(logits, result.logits[[i]], rtol=1e-4, atol=1e-4):
                halves.add(tuple(half))
    assert len(halves) == 2, "each image has a fold, and there are two"


def test_the_only_image_of_a_class_stays_in():
    features, labels = random_support((1, 3, 3))
    result = leave_one_out(make_head("lda"), features, labels)
    assert result.index.tolist() == [1, 2, 3, 4, 5, 6]
    assert result.logits.shape == (6, 3)


def test_large_classes_take_a_bounded_number_of_heads(monkeypatch):
    built = []
    features, labels = random_support((60, 50), features=4)
    head = make_head("protonets")
    build = type(head).build
    monkeypatch.setattr(type(head), "build", lambda self, z, y: built.append(len(y)) or build(self, z, y))
    result = leave_one_out(head, features, labels)
    assert len(result.index) == 110
    assert len(built) == FOLDS


def test_the_head_itself_is_not_touched():
    features, labels = random_support()
    head = make_head("lda").configure(features, labels)
    before = [t.copy() for t in head.configured()]
    leave_one_out(head, features, labels)
    assert all(np.array_equal(a, b) for a, b in zip(before, head.configured(), strict=True))


SUMMED = [name for name, head in HEADS.items() if head.scatter in ("none", "task")]


@pytest.mark.parametrize("name", SUMMED)
def test_the_sums_of_the_images_alone_give_the_same_logits(name):
    features, labels = random_support()
    head = make_head(name)
    total = Statistics.of(features, labels, scatter=head.scatter)
    expected = leave_one_out(head, features, labels, seed=3)
    result = leave_one_out_of_sums(head, total, features, labels, seed=3)
    assert result.index.tolist() == expected.index.tolist()
    np.testing.assert_allclose(result.logits, expected.logits, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(result.cosines, expected.cosines, rtol=1e-9)


@pytest.mark.parametrize("name", SUMMED)
def test_an_image_is_subtracted_from_the_sums_of_all_clients(name):
    """One image each of two classes here, more elsewhere: the head is the one of all images but these two."""
    features, labels = random_support()
    own = np.array([0, 5])
    head = make_head(name)
    total = Statistics.of(features, labels, scatter=head.scatter)
    result = leave_one_out_of_sums(head, total, features[own], labels[own])
    rest = np.setdiff1d(np.arange(12), own)
    expected = make_head(name).configure(features[rest], labels[rest]).logits(features[own])
    np.testing.assert_allclose(result.logits, expected, rtol=1e-6, atol=1e-6)


def test_the_only_image_of_a_class_in_all_stays_in_the_sums():
    features, labels = random_support((1, 3, 3))
    total = Statistics.of(features, labels, scatter="none")
    assert leave_one_out_of_sums(make_head("protonets"), total, features, labels).index.tolist() == [
        1, 2, 3, 4, 5, 6,
    ]  # fmt: skip
    alone = leave_one_out_of_sums(make_head("protonets"), total, features[:1], labels[:1])
    assert len(alone) == 0
    assert alone.logits.shape == (0, 3)
