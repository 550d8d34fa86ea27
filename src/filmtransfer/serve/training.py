"""The training of one user: a first classifier within seconds, then the fine-tuned one, each with its assessment.

The first is built from the features of the frozen backbone and can be used during fine-tuning. Before it is published, the
graph that predictions need is made, once for each image size. The accuracy of either is the estimate
that its update stores; the confusion matrix counts all leave-one-out predictions, also of photos that fine-tuning has seen.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..backbones import Backbone
from ..data import LabelledImages
from ..errors import FitWarning, UsageError
from ..estimator import FewShotClassifier
from ..formatting import printable
from ..model import AdaptedModel
from ..runtime.extractor import prepare_predictions
from ..training.assess.evaluation import evaluate
from ..training.callbacks import Callbacks, OnStep
from .settings import MAX_STEPS
from .store import JsonObject
from .summary import summarise_update

Publish = Callable[[bytes, JsonObject], None]

LAST_STAGE = "tuned"  # of the versions of a training: nothing follows it
OPTIONS = ("steps", "head", "seed", "image_size", "time_limit")  # the rest is that of the preset "fast"


def train_user(
    photos: Sequence[bytes],
    labels: Sequence[str],
    *,
    backbone: Backbone,
    options: JsonObject,
    on_step: OnStep | None = None,
    publish: Publish,
) -> None:
    """Train on image files; call ``publish`` with the update file and its summary, twice.

    An exception of ``on_step``, which is called after each step, ends the training.
    """
    start = time.monotonic()
    with warnings.catch_warnings(record=True) as notes:  # the package's warnings, for the summary
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", FitWarning)
        images = LabelledImages.from_memory(list(photos), list(labels))
        images.display_names = _display_names(labels)
        classifier = _classifier(backbone, options)
        prepared = classifier.prepare(images, backbone)
        untuned = replace(prepared, config=replace(prepared.config, steps=0))

        def publish_stage(stage: str) -> None:
            content = classifier.update_.to_bytes()
            summary = summarise(classifier) | {
                "stage": stage,
                "seconds": round(time.monotonic() - start, 3),
                "bytes": len(content),
                "notes": [str(note.message) for note in notes],
            }
            publish(content, summary)

        classifier.fit_prepared(untuned)
        _prepare_predictions(prepared.model)
        publish_stage("first")
        if prepared.config.steps and max(classifier.update_.counts) > 1:
            classifier.fit_prepared(prepared, Callbacks(on_step=on_step))
            publish_stage(LAST_STAGE)


def summarise(classifier: FewShotClassifier) -> JsonObject:
    """Return the summary of an update with the confusion matrix and the predictions of all leave-one-out photos.

    A class with a single photo has no leave-one-out prediction.
    """
    update, assessment = classifier.update_, classifier.assessment_
    assert update.support is not None
    names, labels = [str(name) for name in update.classes], update.support.labels
    photos: list[JsonObject] = []
    predicted = index = labels[:0]
    if assessment is not None:
        index = assessment.leave_one_out.index
        posterior = classifier.predictor_.posterior(assessment.leave_one_out.logits)
        confidences, predicted = posterior.max(1), posterior.argmax(1)
        photos = [
            {"index": i, "truth": names[labels[i]], "said": names[c], "p": round(p, 4)}
            for i, c, p in zip(index.tolist(), predicted.tolist(), confidences.tolist(), strict=True)
        ]
    confusion = evaluate(predicted, labels[index], len(names)).confusion
    return summarise_update(update) | {"confusion": confusion.tolist(), "photos": photos}


def _prepare_predictions(model: AdaptedModel) -> None:
    """Make the graph that the service predicts with, unless it is there; problems are logged, the user does not see them."""
    with warnings.catch_warnings(record=True) as problems:
        prepare_predictions(model)
    for problem in problems:
        print(printable(str(problem.message)), file=sys.stderr, flush=True)


def _classifier(backbone: Backbone, options: JsonObject) -> FewShotClassifier:
    """Return a classifier with the preset "fast" and the user's options."""
    for name in options:
        if name not in OPTIONS:
            raise UsageError(f"A training has no option {name!r}.", f"Options: {', '.join(OPTIONS)}.")
    chosen = {"image_size": backbone.pixels.size} | {k: v for k, v in options.items() if v is not None}
    steps, seed = chosen.get("steps", 0), chosen.get("seed", 0)
    if not isinstance(seed, int):
        raise UsageError(f"seed cannot be {seed!r}.", "It is a whole number.")
    if isinstance(steps, int) and steps > MAX_STEPS:
        raise UsageError(f"{steps} steps are too many.", f"Use at most {MAX_STEPS}.")
    return FewShotClassifier(backbone=backbone.name, strict=True, **chosen)


def _display_names(labels: Sequence[str]) -> list[str]:
    """Return the names of photos in messages, as in "photo 2 of cat"."""
    seen: Counter[str] = Counter()
    names = []
    for label in labels:
        seen[label] += 1
        names.append(f"photo {seen[label]} of {label}")
    return names
