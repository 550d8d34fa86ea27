"""The sources of meta-training tasks: classes of datasets, or the users of ORBIT's train part."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from ...backbones import Backbone
from ...data import PixelSpec, read_squares
from ...errors import InputError
from ...seeding import make_generator, permutation
from ..datasets import Dataset
from ..orbit.dataset import read_user, user_names
from ..orbit.tasks import OrbitProtocol, read_clips, sample_task
from .meta_training import TaskSource


def pixel_spec(backbone: Backbone, size: int) -> PixelSpec:
    """Return how the backbone expects images of about this size."""
    return replace(backbone.pixels, size=backbone.fit_size(size))


def class_sources(
    name: str, dataset: Dataset, spec: PixelSpec, *, classes: int, images: int, held_out: float, seed: int
) -> tuple[TaskSource, TaskSource]:
    """Return a source to train on and one to test on, with disjoint classes (``held_out``: fraction of the latter)."""
    order = permutation(len(dataset.classes), make_generator(seed, "meta classes", name)).tolist()[:classes]
    test_count = max(2, round(held_out * len(order)))
    if len(order) - test_count < 2:
        raise InputError(
            f"{name} has {len(order)} classes, too few to hold out {test_count} of them.",
            "Use more classes, or a larger dataset.",
        )
    return (
        _source(name, dataset, order[test_count:], spec, images, seed),
        _source(name, dataset, order[:test_count], spec, images, seed),
    )


def _source(
    name: str, dataset: Dataset, classes: list[int], spec: PixelSpec, images: int, seed: int
) -> TaskSource:
    chosen: list[int] = []
    labels: list[int] = []
    for label, c in enumerate(classes):
        members = np.flatnonzero(dataset.train.labels == c)
        some = permutation(len(members), make_generator(seed, "meta images", name, c)).numpy()[:images]
        chosen += members[some].tolist()
        labels += [label] * len(some)
    sources = [dataset.train.sources[i] for i in chosen]
    squares, skipped = read_squares(sources, spec, [f"{name} image {i}" for i in chosen])
    if skipped:
        raise InputError(
            f"{skipped[0].name}: {skipped[0].reason}.", "Remove it, or download the dataset again."
        )
    pixels = np.stack([square for square in squares if square is not None])
    return TaskSource(name, torch.from_numpy(pixels), torch.tensor(labels))


def user_sources(
    root: str | Path,
    spec: PixelSpec,
    *,
    mode: str = "train",
    rate: float | None = None,
    protocol: OrbitProtocol | None = None,
    seed: int = 0,
) -> list[TaskSource]:
    """Return a source of clips of each user's clean videos; users with one object are skipped."""
    protocol = protocol or OrbitProtocol()
    sources = []
    for name in user_names(root, mode):
        user = read_user(root, name, mode, rate)
        if len(user.objects) < 2:
            continue
        query_kind = "clutter" if any(item.clutter for item in user.objects) else "clean"
        support = read_clips(sample_task(user, query_kind, 0, seed, protocol), spec)
        sources.append(TaskSource(name, support.pixels, support.labels, protocol.clip_length, support.videos))
    if not sources:
        raise InputError(f"No user of {root} has two objects.", "Meta-training needs at least two.")
    return sources
