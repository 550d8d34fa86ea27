"""Test accuracy against training step (the paper's figure of convergence).

At the chosen steps the head is built from the current parameters and evaluated on the test images, without the choice of
an interpolation factor.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ..data import LabelledImages, load
from ..errors import UsageError
from ..estimator import FewShotClassifier
from ..training.baselines.batch import train_batches
from ..training.finetune.episodic import finetune
from ..training.finetune.loop import Progress
from .datasets.dataset import ImageSources


def accuracy_curve(
    clf: FewShotClassifier,
    learn: LabelledImages,
    images: ImageSources,
    labels: np.ndarray,
    steps: Sequence[int],
) -> list[list[float]]:
    """Return [step, accuracy] for each of ``steps``; 0 is before training."""
    valid = isinstance(steps, list) and all(type(step) is int and step >= 0 for step in steps)
    if not valid or steps != sorted({*steps}):
        raise UsageError(f"curve cannot be {steps!r}.", "It is a list of steps in ascending order.")
    ready = clf.prepare(learn)
    model, settings, truth = ready.model, ready.config, torch.from_numpy(labels)
    settings = settings.override(steps=steps[-1])
    # ``load`` needs two classes; the labels are not used.
    test = load(
        LabelledImages(list(images), [i % 2 for i in range(len(images))], [0, 1]), model.pixels, strict=True
    )
    support = ready.loaded.labels
    by_batches = model.head.trained_by == "batches"
    rule = settings.batch_rule(len(support), ready.pixels.shape[-1])
    trained_head = by_batches and rule.zero_head  # trained together with the backbone
    curve: list[list[float]] = []

    def evaluate(step: int) -> None:
        if step in steps:
            if not trained_head:
                model.configure(ready.pixels, support)
            predicted = model.logits(test.pixels).argmax(1).cpu()
            curve.append([step, float((predicted == truth).double().mean())])

    def watch(progress: Progress) -> None:
        evaluate(progress.step)

    if not trained_head:
        evaluate(0)
    elif 0 in steps:  # a head of zeros is at chance level
        curve.append([0, 1 / len(learn.classes)])
    if by_batches:
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
    return curve
