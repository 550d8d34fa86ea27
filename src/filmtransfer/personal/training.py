"""One user's classifier: a first one within seconds, then the fine-tuned one; each with an honest look at itself.

The first is built from the frozen backbone's features and can be used while fine-tuning goes on. Both are judged on
the user's own photos, each by a head that was built without it. (FiLM has seen them all: the tuned figure is a
little kind.)
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..backbones import Backbone
from ..data import LabelledImages
from ..errors import FitWarning, UsageError
from ..estimator import FewShotClassifier
from ..heads import make_head
from ..model import Update
from ..training.evaluate import evaluate
from ..training.loop import Watch

Publish = Callable[[bytes, dict[str, Any]], None]

# What a user may choose, and the kind it is of; everything else is the fast preset's.
OPTIONS: dict[str, type] = {"steps": int, "head": str, "seed": int, "image_size": int, "time_limit": float}
MAX_STEPS = 1000
HEADS_BUILT = 200  # at most, to judge the photos; with more photos some are judged together
LARGE = 400  # photos from which on a head takes a while to build


def train_user(
    photos: Sequence[bytes],
    labels: Sequence[str],
    *,
    backbone: Backbone,
    options: Mapping[str, Any],
    watch: Watch | None = None,
    publish: Publish,
) -> None:
    """Learn from image files; ``publish`` gets the file and its summary, twice. What ``watch`` raises ends it."""
    start = time.monotonic()
    with _notes() as notes:
        images = LabelledImages.from_memory(list(photos), list(labels))
        images.titles = _titles(labels)
        classifier = _classifier(backbone, options)
        ready = classifier.prepare(images, backbone)
        untuned = replace(ready, settings=replace(ready.settings, steps=0))

        def tell(stage: str) -> None:
            update = classifier.update_
            content = update.to_bytes()
            summary = judge(update) | {
                "stage": stage,
                "steps": classifier.history_.steps,
                "seconds": round(time.monotonic() - start, 3),
                "bytes": len(content),
                "notes": [str(one.message) for one in notes],
            }
            publish(content, summary)

        classifier.fit_prepared(untuned)
        tell("first")
        if ready.settings.steps and max(classifier.update_.counts) > 1:
            classifier.fit_prepared(ready, watch)
            tell("tuned")


@contextmanager
def _notes() -> Iterator[list[warnings.WarningMessage]]:
    """What a user should know is collected here, to go with the summary."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", FitWarning)
        yield said


def judge(update: Update) -> dict[str, Any]:
    """Accuracy, its 95% interval, confusions and every photo, each judged by a head built without it.

    The only photo of a class cannot be judged: without it there is no such class. If no photo can, the accuracy is None.
    """
    features, labels = _support(update)
    counts = torch.bincount(labels)
    judged = counts[labels] > 1
    said, sure = torch.full_like(labels, -1), torch.zeros(len(labels), dtype=torch.float64)
    for fold in folds(labels, update.head):
        fold = fold[judged[fold]]
        if len(fold) == 0:
            continue
        kept = torch.ones(len(labels), dtype=torch.bool)
        kept[fold] = False
        head = make_head(update.head, **update.head_options)
        if update.covariance_weights is not None:
            head.weights.log.data.copy_(update.covariance_weights)  # type: ignore[union-attr, operator]
        with torch.no_grad():
            head.configure(features[kept], labels[kept])
            best = head.probabilities(features[fold]).max(1)
        said[fold], sure[fold] = head.classes[best.indices], best.values.double()
    result = evaluate(said[judged], labels[judged], len(update.classes))
    names = [str(name) for name in update.classes]
    return {
        "classes": dict(zip(names, update.counts, strict=True)),
        "accuracy": result.accuracy if result.images else None,
        "low": result.low,
        "high": result.high,
        "confusion": result.confusion.tolist(),
        "photos": [
            {"index": i, "truth": names[labels[i]], "said": names[said[i]], "p": round(float(sure[i]), 4)}
            for i in torch.nonzero(judged).flatten().tolist()
        ],
    }


def folds(labels: Tensor, head: str) -> list[Tensor]:
    """The photos, divided so that no class of two or more is ever away as a whole; one by one if that is cheap."""
    most = 10 if head == "linear" else 20 if len(labels) > LARGE else HEADS_BUILT
    order = torch.argsort(labels, stable=True)  # neighbours in a class go to different folds
    count = max(2, min(len(labels), most))
    return [order[first::count] for first in range(count)]


def _support(update: Update) -> tuple[Tensor, Tensor]:
    """The kept support features and their labels."""
    kept: Any = update.support
    assert kept is not None
    return kept if isinstance(kept, tuple) else (kept.features, kept.labels)


def _classifier(backbone: Backbone, options: Mapping[str, Any]) -> FewShotClassifier:
    """The fast preset with what the user chose."""
    for name, value in options.items():
        kind = OPTIONS.get(name)
        if kind is None:
            raise UsageError(f"A training has no option {name!r}.", f"Options: {', '.join(OPTIONS)}.")
        fits = isinstance(value, (int, float) if kind is float else kind) and not isinstance(value, bool)
        if value is not None and not fits:
            raise UsageError(f"{name} cannot be {value!r}.", f"It is of kind {kind.__name__}.")
    chosen = {name: value for name, value in options.items() if value is not None}
    if chosen.get("steps", 0) > MAX_STEPS:
        raise UsageError(f"{chosen['steps']} steps are too many.", f"Take at most {MAX_STEPS}.")
    chosen.setdefault("image_size", backbone.pixels.size)
    return FewShotClassifier(backbone=backbone.name, strict=True, keep_statistics=True, **chosen)


def _titles(labels: Sequence[str]) -> list[str]:
    """“photo 2 of cat”, counted from 1."""
    seen: dict[str, int] = {}
    titles = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        titles.append(f"photo {seen[label]} of {label}")
    return titles
