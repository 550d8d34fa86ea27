"""One user's classifier: a first one within seconds, then the fine-tuned one; each with an honest look at itself.

The first is built from the frozen backbone's features and can be used while fine-tuning goes on. Both are judged on
the user's own photos, each by a head that was built without it. (FiLM has seen most of them: the tuned figure is a
little kind, and the stricter ``estimate`` stands beside it.)
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ..backbones import Backbone
from ..data import LabelledImages
from ..errors import FitWarning, UsageError
from ..estimator import FewShotClassifier
from ..training.assess.evaluation import evaluate
from ..training.finetune.loop import Watch

Publish = Callable[[bytes, dict[str, Any]], None]

# What a user may choose, and the kind it is of; everything else is the fast preset's.
OPTIONS: dict[str, type] = {"steps": int, "head": str, "seed": int, "image_size": int, "time_limit": float}
MAX_STEPS = 1000


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
        images.display_names = _titles(labels)
        classifier = _classifier(backbone, options)
        ready = classifier.prepare(images, backbone)
        untuned = replace(ready, config=replace(ready.config, steps=0))

        def tell(stage: str) -> None:
            content = classifier.update_.to_bytes()
            summary = look(classifier) | {
                "stage": stage,
                "steps": classifier.history_.steps,
                "seconds": round(time.monotonic() - start, 3),
                "bytes": len(content),
                "notes": [str(one.message) for one in notes],
            }
            publish(content, summary)

        classifier.fit_prepared(untuned)
        tell("first")
        if ready.config.steps and max(classifier.update_.counts) > 1:
            classifier.fit_prepared(ready, watch)
            tell("tuned")


@contextmanager
def _notes() -> Iterator[list[warnings.WarningMessage]]:
    """What a user should know is collected here, to go with the summary."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", FitWarning)
        yield said


def look(classifier: FewShotClassifier) -> dict[str, Any]:
    """Accuracy, its 95% interval, confusions and every photo, each judged by a head built without it.

    The only photo of a class cannot be judged: without it there is no such class. If none can, the accuracy is None.
    ``estimate`` is the stricter figure, of the photos that FiLM has not seen either.
    """
    update, assessment = classifier.update_, classifier.assessment_
    assert update.support is not None
    names, labels = [str(name) for name in update.classes], update.support.labels
    photos: list[dict[str, Any]] = []
    said = index = labels[:0]
    if assessment is not None:
        index = assessment.leave_one_out.index
        chances, said = classifier.predictor_.posterior(assessment.leave_one_out.logits).max(1)
        photos = [
            {"index": i, "truth": names[labels[i]], "said": names[c], "p": round(p, 4)}
            for i, c, p in zip(index.tolist(), said.tolist(), chances.tolist(), strict=True)
        ]
    result = evaluate(said, labels[index], len(names))
    return {
        "classes": dict(zip(names, update.counts, strict=True)),
        "accuracy": result.accuracy if result.images else None,
        "low": result.low,
        "high": result.high,
        "confusion": result.confusion.tolist(),
        "photos": photos,
        "estimate": update.results.get("estimate"),
    }


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
