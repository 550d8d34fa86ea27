"""Training curves: test accuracy against training step (the paper's figure of convergence).

At the chosen steps the head is built from the current parameters and evaluated on the test images, without the choice of
an interpolation factor.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ..data import LabelledImages, load
from ..estimator import FewShotClassifier
from ..training.baselines.batch import train_batches
from ..training.callbacks import Callbacks
from ..training.finetune.activations import Activations
from ..training.finetune.episodic import finetune
from .datasets.dataset import ImageSources
from .run_settings import check_curve


def accuracy_curve(
    clf: FewShotClassifier,
    train: LabelledImages,
    images: ImageSources,
    labels: np.ndarray,
    steps: Sequence[int],
) -> list[list[float]]:
    """Return [step, accuracy] for each of ``steps``; 0 is before training."""
    check_curve(steps)
    prepared = clf.prepare(train)
    model, truth, support = prepared.model, torch.from_numpy(labels), prepared.labels
    config = prepared.config.override(steps=steps[-1])
    # ``load`` needs two classes; the labels are not used.
    test = load(
        LabelledImages(list(images), [i % 2 for i in range(len(images))], [0, 1]), model.pixels, strict=True
    )
    test_pixels = torch.from_numpy(test.pixels)
    by_batches = model.head.trained_by == "batches"
    rule = config.batch_rule(len(support), prepared.pixels.shape[-1])
    trained_head = by_batches and rule.initial_head == "zero"  # otherwise it is built from the support images
    curve: list[list[float]] = []

    def evaluate(step: int) -> None:
        if step in steps:
            if not trained_head:
                model.configure(prepared.pixels, support)
            predicted = model.logits(test_pixels).argmax(1).cpu()
            curve.append([step, float((predicted == truth).double().mean())])

    if not trained_head:
        evaluate(0)
    elif 0 in steps:  # a head of zeros is at chance level
        curve.append([0, 1 / len(train.classes)])
    callbacks = Callbacks(on_step=lambda progress: evaluate(progress.step))
    train_images = Activations(
        model, prepared.train_pixels, 0 if by_batches and rule.augments else config.cache_mb
    )
    if by_batches:
        train_batches(model, train_images, support, rule, config, seed=clf.seed, callbacks=callbacks)
    else:
        finetune(model, train_images, support, config, seed=clf.seed, callbacks=callbacks)
    return curve
