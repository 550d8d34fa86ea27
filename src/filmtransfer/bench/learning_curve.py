"""Test accuracy against training step (the paper's figure of convergence).

At chosen steps the classifier is built as it would be delivered, all the way and without looking back, and tried on
the test images. Choosing how far to go is left out: the figure is about the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..data import LabelledImages, load
from ..errors import UsageError
from ..estimator import FewShotClassifier
from ..training.baselines.batch import train_batches
from ..training.finetune.episodic import finetune
from ..training.finetune.loop import Progress


def accuracy_curve(
    clf: FewShotClassifier,
    learn: LabelledImages,
    images: Sequence[Any] | np.ndarray,
    labels: np.ndarray,
    steps: Sequence[int],
) -> list[list[float]]:
    """[step, accuracy] at each of ``steps``; 0 is before training."""
    whole = isinstance(steps, list) and all(type(step) is int and step >= 0 for step in steps)
    if not whole or steps != sorted({*steps}):
        raise UsageError(f"curve cannot be {steps!r}.", "It is a list of steps in ascending order.")
    ready = clf.prepare(learn)
    model, settings, truth = ready.model, ready.config, torch.from_numpy(labels)
    settings = settings.override(steps=steps[-1])
    # One pass to read them all; the classes do not matter, only that there are two.
    tried = load(
        LabelledImages(list(images), [i % 2 for i in range(len(images))], [0, 1]), model.pixels, strict=True
    )
    support = ready.loaded.labels
    linear = model.head.name == "linear"
    rule = settings.batch_rule(len(support), ready.pixels.shape[-1])
    own_head = linear and rule.zero_head  # trained with the rest, and delivered as it is
    found: list[list[float]] = []

    def look(step: int) -> None:
        if step in steps:
            if not own_head:
                model.configure(ready.pixels, support)
            guess = model.logits(tried.pixels).argmax(1).cpu()
            found.append([step, float((guess == truth).double().mean())])

    def watch(progress: Progress) -> None:
        look(progress.step)

    if not own_head:
        look(0)
    elif 0 in steps:  # a head of zeros tells nothing apart
        found.append([0, 1 / len(learn.classes)])
    if linear:
        train_batches(
            model,
            ready.train_pixels,
            support,
            rule,
            seed=clf.seed,
            micro_batch=settings.micro_batch,
            watch=watch,
            cache_mb=settings.cache_mb,
        )
    else:
        finetune(model, ready.train_pixels, support, settings, seed=clf.seed, watch=watch)
    return found
