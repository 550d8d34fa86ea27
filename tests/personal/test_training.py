"""One user's training: a first version at once, the tuned one later, both judged honestly."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from filmtransfer import FewShotClassifier
from filmtransfer.errors import InputError, UsageError
from filmtransfer.heads import make_head
from filmtransfer.model import Update
from filmtransfer.personal.training import folds, judge, train_user
from filmtransfer.training.loop import Progress

from .small import backbone, photo, update

NAMES = ("disc", "bars", "plain")
OPTIONS = {"steps": 3, "image_size": 32, "seed": 0}


def photos(shots: int = 4) -> tuple[list[bytes], list[str]]:
    pairs = [(photo(c, 100 * c + i), NAMES[c]) for i in range(shots) for c in range(3)]
    return [image for image, _ in pairs], [label for _, label in pairs]


def train(
    images: list[bytes], labels: list[str], watch: Any = None, **options: Any
) -> list[tuple[bytes, dict[str, Any]]]:
    published: list[tuple[bytes, dict[str, Any]]] = []
    train_user(
        images,
        labels,
        backbone=backbone(),
        options=OPTIONS | options,
        watch=watch,
        publish=lambda content, summary: published.append((content, summary)),
    )
    return published


def test_first_then_tuned():
    steps: list[Progress] = []
    images, labels = photos()
    (first, before), (tuned, after) = train(images, labels, steps.append)
    assert (before["stage"], after["stage"]) == ("first", "tuned")
    assert (before["steps"], after["steps"]) == (0, 3)
    assert [p.step for p in steps] == [1, 2, 3]
    assert 0 < before["seconds"] < after["seconds"]
    for content, summary in ((first, before), (tuned, after)):
        assert summary["bytes"] == len(content)
        assert summary["classes"] == {"bars": 4, "disc": 4, "plain": 4}
        assert sum(map(sum, summary["confusion"])) == len(summary["photos"]) == 12
        right = sum(one["said"] == one["truth"] for one in summary["photos"])
        assert summary["accuracy"] == right / 12
        assert summary["low"] < summary["accuracy"] <= summary["high"]
        assert [one["truth"] for one in summary["photos"]] == labels
        assert Update.from_bytes(content).support is not None
    assert first != tuned


def test_it_is_the_front_doors_training():
    images, labels = photos()
    published = train(images, labels)
    for steps, (content, _) in zip((0, 3), published, strict=True):
        front = FewShotClassifier(steps=steps, image_size=32, keep_statistics=True).fit(images, labels)
        made, ours = front.update_, Update.from_bytes(content)
        assert all(torch.equal(made.body[k], v) for k, v in ours.body.items())
        assert all(torch.equal(made.head_tensors[k], v) for k, v in ours.head_tensors.items())


def test_cancelled_in_the_middle_the_first_one_stays():
    class CancelledError(Exception):
        pass

    def watch(progress: Progress) -> None:
        if progress.step == 2:
            raise CancelledError

    published: list[str] = []
    images, labels = photos()
    with pytest.raises(CancelledError):
        train_user(
            images, labels, backbone=backbone(), options=OPTIONS, watch=watch,
            publish=lambda _, summary: published.append(summary["stage"]),
        )  # fmt: skip
    assert published == ["first"]


def test_without_fine_tuning_there_is_one_version():
    images, labels = photos()
    assert [summary["stage"] for _, summary in train(images, labels, steps=0)] == ["first"]
    ((_, only),) = train(images[:3], labels[:3])  # one shot: there is nothing to tune by
    assert only["accuracy"] is None
    assert only["photos"] == []
    assert "no fine-tuning" in only["notes"][0]


def test_a_users_mistakes_are_said_clearly():
    images, labels = photos(2)
    with pytest.raises(InputError, match="only one class, disc"):
        train(images[::3], labels[::3])
    with pytest.raises(InputError, match="photo 2 of bars: this is not an image"):
        train([*images[:4], b"nonsense", images[5]], labels)
    with pytest.raises(InputError, match="No images"):
        train([], [])
    for wrong in (
        {"steps": 5000},
        {"steps": "many"},
        {"steps": True},
        {"colour": 1},
        {"head": "none"},
        {"seed": 0.5},
    ):
        with pytest.raises(UsageError):
            train(images, labels, **wrong)


@pytest.mark.parametrize("head", ["lda", "qda", "protonets", "linear"])
def test_every_photo_is_judged_by_a_head_without_it(head):
    """Against the obvious loop; a lone photo of a class is not judged."""
    made = update(1, head, keep=True)
    features, labels = made.support
    keep = torch.tensor([True] * 4 + [False] * 2 + [True] * 3)  # the second class has one photo
    made.support, made.counts = (features[keep], labels[keep]), [3, 1, 3]
    found = judge(made)
    features, labels = made.support
    assert [one["index"] for one in found["photos"]] == [0, 1, 2, 4, 5, 6]
    if head == "linear":  # not one by one: they are few, so it is nearly
        assert len(folds(labels, head)) == 7
    for one in found["photos"]:
        rest = torch.arange(len(labels)) != one["index"]
        own = make_head(head)
        if made.covariance_weights is not None:
            own.weights.log.data.copy_(made.covariance_weights)
        own.configure(features[rest], labels[rest])
        p = own.probabilities(features[one["index"]][None])[0].detach()
        assert one["said"] == made.classes[own.classes[p.argmax()]]
        assert one["p"] == pytest.approx(float(p.max()), abs=1e-3)


@pytest.mark.parametrize("count", [2, 7, 300, 1000])
def test_folds_leave_something_of_every_class(count):
    labels = torch.arange(count) % max(count // 2, 1)  # classes of two (or three)
    for head in ("lda", "linear"):
        parts = folds(labels, head)
        assert sorted(torch.cat(parts).tolist()) == list(range(count))
        assert len(parts) <= 200
        for part in parts:
            rest = torch.ones(count, dtype=torch.bool)
            rest[part] = False
            assert set(labels[rest].tolist()) == set(labels.tolist())
