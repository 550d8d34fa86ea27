"""How VTAB cuts a set into images to learn from, to validate on and to test on.

VTAB (google-research/task_adaptation, task_adaptation/data/*.py, splits train800, val200 and test) gives its
images as slices of the splits of TensorFlow Datasets, as these are stored; order.py computes that order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...seeding import make_generator, permutation
from .base import Part, Raw
from .order import stored_order

TRAIN, VAL = 800, 200
COUNT = TRAIN + VAL


@dataclass(frozen=True)
class Cut:
    """Where the slices of a set begin. train800 is always the beginning of the training split."""

    images: int  # in the whole training split
    val_from: Literal["train", "validation", "test"]  # the split that val200 is a slice of
    others: int  # images in that split
    val: int = 0  # where in it val200 begins
    test: int | None = None  # where in it the test images begin; None: they are a split of their own


# The splits' sizes are those of TensorFlow Datasets; a copy of another size is never called official.
# Caltech101 is absent: its splits depend on how a file system lists folders (natural.py).
CUTS = {
    "cifar100": Cut(50_000, "train", 50_000, 45_000),
    "flowers102": Cut(1_020, "validation", 1_020),
    "oxford_pets": Cut(3_680, "train", 3_680, 2_944),
    "sun397": Cut(76_128, "validation", 10_875),
    "svhn": Cut(73_257, "train", 73_257, 65_931),
    "dtd": Cut(1_880, "validation", 1_880),
    "eurosat": Cut(27_000, "train", 27_000, 16_200, 21_600),
    "resisc45": Cut(31_500, "train", 31_500, 18_900, 25_200),
    "patch_camelyon": Cut(262_144, "validation", 32_768),
    "diabetic_retinopathy": Cut(35_126, "validation", 10_906),
    "clevr_count": Cut(70_000, "train", 70_000, 63_000),
    "clevr_distance": Cut(70_000, "train", 70_000, 63_000),
    "dsprites_location": Cut(737_280, "train", 737_280, 589_824, 663_552),
    "dsprites_orientation": Cut(737_280, "train", 737_280, 589_824, 663_552),
    "smallnorb_azimuth": Cut(24_300, "test", 24_300, 0, 12_150),
    "smallnorb_elevation": Cut(24_300, "test", 24_300, 0, 12_150),
    "dmlab": Cut(65_550, "validation", 22_628),
    "kitti_distance": Cut(6_347, "validation", 423),
}


# Training images of a set as published, where that is known.
PUBLISHED = {"cifar10": 50_000} | {name: rule.images for name, rule in CUTS.items()}


def whole_parts(raw: Raw, rule: Cut | None, seed: int, notes: list[str]) -> tuple[Part, Part]:
    """All training images and all test images, also of a set that is published in one piece."""
    if len(raw.test):
        return raw.train, raw.test
    if rule and rule.test is not None and complete(raw.train, rule.images):
        order = stored_order(raw.train.keys, "train")
        notes.append("It is published in one piece; training and test images are VTAB's slices of it.")
        return raw.train.pick(order[: rule.val]), raw.train.pick(order[rule.test :])
    order = permutation(len(raw.train), make_generator(seed, "test images")).numpy()
    few = max(1, len(order) // 5)
    notes.append(f"It is published in one piece; a fifth was drawn for the test with seed {seed}.")
    return raw.train.pick(np.sort(order[few:])), raw.train.pick(np.sort(order[:few]))


def cut(raw: Raw, rule: Cut) -> tuple[Part, Part] | None:
    """VTAB's training and test images, if the set is whole and the keys of its images are known."""
    second = {"train": raw.train, "validation": raw.val, "test": raw.test}[rule.val_from]
    if second is None or not complete(raw.train, rule.images) or not complete(second, rule.others):
        return None
    first = stored_order(raw.train.keys, "train")
    order = first if rule.val_from == "train" else stored_order(second.keys, rule.val_from)
    train = raw.train.pick(first[:TRAIN]).join(second.pick(order[rule.val : rule.val + VAL]))
    return train, raw.test if rule.test is None else second.pick(order[rule.test :])


def complete(part: Part, images: int) -> bool:
    """Whether these are all the published images of a split, with their keys."""
    return len(part) == len(part.keys) == images
