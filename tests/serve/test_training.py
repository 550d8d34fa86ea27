"""The training of one user: a first version at once, the fine-tuned one later, both assessed by leave-one-out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

from filmtransfer import FewShotClassifier
from filmtransfer.errors import InputError, UsageError
from filmtransfer.heads import make_head
from filmtransfer.model import Update
from filmtransfer.serve.training import train_user
from filmtransfer.training.assess.leave_one_out import leave_one_out
from filmtransfer.training.callbacks import Progress

from .updates import backbone, photo

NAMES = ("disc", "bars", "plain")
OPTIONS = {"steps": 3, "image_size": 32, "seed": 0}


def photos(shots: int = 4) -> tuple[list[bytes], list[str]]:
    pairs = [(photo(c, 100 * c + i), NAMES[c]) for i in range(shots) for c in range(3)]
    return [image for image, _ in pairs], [label for _, label in pairs]


def train(
    images: list[bytes], labels: list[str], on_step: Any = None, **options: Any
) -> list[tuple[bytes, dict[str, Any]]]:
    published: list[tuple[bytes, dict[str, Any]]] = []
    train_user(
        images,
        labels,
        backbone=backbone(),
        options=OPTIONS | options,
        on_step=on_step,
        publish=lambda content, summary: published.append((content, summary)),
    )
    return published


def test_first_and_fine_tuned_versions():
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
        assert summary["estimate"] == Update.from_bytes(content).estimate.stored()
        assert [one["truth"] for one in summary["photos"]] == labels
        assert Update.from_bytes(content).support is not None
    assert first != tuned


def test_the_result_is_that_of_the_estimator():
    images, labels = photos()
    published = train(images, labels)
    for steps, (content, _) in zip((0, 3), published, strict=True):
        estimator = FewShotClassifier(steps=steps, image_size=32).fit(images, labels)
        expected, own = estimator.update_, Update.from_bytes(content)
        assert all(np.array_equal(expected.parameters[k], v) for k, v in own.parameters.items())
        assert all(np.array_equal(expected.head_tensors[k], v) for k, v in own.head_tensors.items())


def test_the_first_version_remains_after_a_cancellation():
    class CancelledError(Exception):
        pass

    def cancel(progress: Progress) -> None:
        if progress.step == 2:
            raise CancelledError

    published: list[str] = []
    images, labels = photos()
    with pytest.raises(CancelledError):
        train_user(
            images, labels, backbone=backbone(), options=OPTIONS, on_step=cancel,
            publish=lambda _, summary: published.append(summary["stage"]),
        )  # fmt: skip
    assert published == ["first"]


def test_without_fine_tuning_there_is_one_version():
    images, labels = photos()
    assert [summary["stage"] for _, summary in train(images, labels, steps=0)] == ["first"]
    ((_, only),) = train(images[:3], labels[:3])  # one shot: fine-tuning is not possible
    assert only["estimate"] is None
    assert only["photos"] == []
    assert "no fine-tuning" in only["notes"][0]


def test_errors_of_the_user_are_clear():
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


def test_every_photo_is_assessed_by_a_head_without_it():
    """A single photo of a class is not assessed; the estimate counts those that fine-tuning has not seen."""
    images, labels = photos(4)
    images, labels = [*images, photo(0, 999)], [*labels, "alone"]
    _, (content, summary) = train(images, labels)
    update = Update.from_bytes(content)
    assert sum(map(sum, summary["confusion"])) == 12
    assert 0 < summary["estimate"]["images"] < 12
    head = make_head("lda")
    head.set_log_weights(update.head_weights)
    left = leave_one_out(head, update.support.features, update.support.labels, seed=0)
    assert [one["index"] for one in summary["photos"]] == left.index.tolist() == list(range(12))
    expected = softmax(left.logits / update.temperature, 1)
    assert [one["said"] for one in summary["photos"]] == [update.classes[c] for c in expected.argmax(1)]
    assert [one["p"] for one in summary["photos"]] == pytest.approx(expected.max(1).tolist(), abs=1e-3)
