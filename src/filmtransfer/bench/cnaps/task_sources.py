"""Where meta-training gets its tasks: some of the classes of image sets, or the users of ORBIT's train part."""

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


def spec_of(backbone: Backbone, size: int) -> PixelSpec:
    return replace(backbone.pixels, size=backbone.fit_size(size))


def class_sources(
    name: str, found: Dataset, spec: PixelSpec, *, classes: int, images: int, held_out: float, seed: int
) -> tuple[TaskSource, TaskSource]:
    """Two sources without a class in common: to train on, and to test on (``held_out`` of the classes, at least two)."""
    order = permutation(len(found.classes), make_generator(seed, "meta classes", name)).tolist()[:classes]
    tested = max(2, round(held_out * len(order)))
    if len(order) - tested < 2:
        raise InputError(
            f"{name} has {len(order)} classes, too few to hold {tested} of them out.",
            "Use more classes, or a larger set.",
        )
    return (
        _source(name, found, order[tested:], spec, images, seed),
        _source(name, found, order[:tested], spec, images, seed),
    )


def _source(
    name: str, found: Dataset, classes: list[int], spec: PixelSpec, images: int, seed: int
) -> TaskSource:
    chosen: list[int] = []
    labels: list[int] = []
    for label, c in enumerate(classes):
        members = np.flatnonzero(found.train.labels == c)
        some = permutation(len(members), make_generator(seed, "meta images", name, c)).numpy()[:images]
        chosen += members[some].tolist()
        labels += [label] * len(some)
    sources = [found.train.sources[i] for i in chosen]
    squares, skipped = read_squares(sources, spec, [f"{name} image {i}" for i in chosen])
    if skipped:
        raise InputError(f"{skipped[0].name}: {skipped[0].reason}.", "Remove it, or fetch the set again.")
    return TaskSource(name, torch.stack([s for s in squares if s is not None]), torch.tensor(labels))


def user_sources(
    root: str | Path,
    spec: PixelSpec,
    *,
    mode: str = "train",
    rate: float | None = None,
    protocol: OrbitProtocol | None = None,
    seed: int = 0,
) -> list[TaskSource]:
    """Clips of each user's clean videos; users with one object are left out."""
    protocol = protocol or OrbitProtocol()
    found = []
    for name in user_names(root, mode):
        user = read_user(root, name, mode, rate)
        if len(user.objects) < 2:
            continue
        asked = "clutter" if any(thing.clutter for thing in user.objects) else "clean"
        learned = read_clips(sample_task(user, asked, 0, seed, protocol), spec)
        found.append(TaskSource(name, learned.pixels, learned.labels, protocol.clip_length, learned.videos))
    if not found:
        raise InputError(f"No user of {root} has two objects.", "Meta-training needs tasks.")
    return found
