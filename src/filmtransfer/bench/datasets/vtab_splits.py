"""How VTAB cuts a set into images to learn from, to validate on and to test on.

VTAB (google-research/task_adaptation, task_adaptation/data/*.py, splits train800, val200 and test) gives its
images as slices of the splits of TensorFlow Datasets, as these are stored; tfds_order.py computes that order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...seeding import make_generator, permutation
from .dataset import ImageSplit, RawDataset
from .tfds_order import tfds_order

TRAIN, VAL = 800, 200
COUNT = TRAIN + VAL


@dataclass(frozen=True)
class VtabSlices:
    """Where the slices of a set begin. train800 is always the beginning of the training split."""

    images: int  # in the whole training split
    val_from: Literal["train", "validation", "test"]  # the split that val200 is a slice of
    others: int  # images in that split
    val: int = 0  # where in it val200 begins
    test: int | None = None  # where in it the test images begin; None: they are a split of their own


# The splits' sizes are those of TensorFlow Datasets; a copy of another size is never called official.
# Caltech101 is absent: its splits depend on how a file system lists folders (natural.py).
VTAB_SLICES = {
    "cifar100": VtabSlices(50_000, "train", 50_000, 45_000),
    "flowers102": VtabSlices(1_020, "validation", 1_020),
    "oxford_pets": VtabSlices(3_680, "train", 3_680, 2_944),
    "sun397": VtabSlices(76_128, "validation", 10_875),
    "svhn": VtabSlices(73_257, "train", 73_257, 65_931),
    "dtd": VtabSlices(1_880, "validation", 1_880),
    "eurosat": VtabSlices(27_000, "train", 27_000, 16_200, 21_600),
    "resisc45": VtabSlices(31_500, "train", 31_500, 18_900, 25_200),
    "patch_camelyon": VtabSlices(262_144, "validation", 32_768),
    "diabetic_retinopathy": VtabSlices(35_126, "validation", 10_906),
    "clevr_count": VtabSlices(70_000, "train", 70_000, 63_000),
    "clevr_distance": VtabSlices(70_000, "train", 70_000, 63_000),
    "dsprites_location": VtabSlices(737_280, "train", 737_280, 589_824, 663_552),
    "dsprites_orientation": VtabSlices(737_280, "train", 737_280, 589_824, 663_552),
    "smallnorb_azimuth": VtabSlices(24_300, "test", 24_300, 0, 12_150),
    "smallnorb_elevation": VtabSlices(24_300, "test", 24_300, 0, 12_150),
    "dmlab": VtabSlices(65_550, "validation", 22_628),
    "kitti_distance": VtabSlices(6_347, "validation", 423),
}


# Training images of a set as published, where that is known.
PUBLISHED = {"cifar10": 50_000} | {name: rule.images for name, rule in VTAB_SLICES.items()}


def full_splits(
    raw: RawDataset, rule: VtabSlices | None, seed: int, notes: list[str]
) -> tuple[ImageSplit, ImageSplit]:
    """All training images and all test images, also of a set that is published in one piece."""
    if len(raw.test):
        return raw.train, raw.test
    if rule and rule.test is not None and is_complete(raw.train, rule.images):
        order = tfds_order(raw.train.keys, "train")
        notes.append("It is published in one piece; training and test images are VTAB's slices of it.")
        return raw.train.select(order[: rule.val]), raw.train.select(order[rule.test :])
    order = permutation(len(raw.train), make_generator(seed, "test images")).numpy()
    few = max(1, len(order) // 5)
    notes.append(f"It is published in one piece; a fifth was drawn for the test with seed {seed}.")
    return raw.train.select(np.sort(order[few:])), raw.train.select(np.sort(order[:few]))


def vtab_parts(raw: RawDataset, rule: VtabSlices) -> tuple[ImageSplit, ImageSplit] | None:
    """VTAB's training and test images, if the set is whole and the keys of its images are known."""
    second = {"train": raw.train, "validation": raw.val, "test": raw.test}[rule.val_from]
    if second is None or not is_complete(raw.train, rule.images) or not is_complete(second, rule.others):
        return None
    first = tfds_order(raw.train.keys, "train")
    order = first if rule.val_from == "train" else tfds_order(second.keys, rule.val_from)
    train = raw.train.select(first[:TRAIN]).join(second.select(order[rule.val : rule.val + VAL]))
    return train, raw.test if rule.test is None else second.select(order[rule.test :])


def is_complete(part: ImageSplit, images: int) -> bool:
    """Whether these are all the published images of a split, with their keys."""
    return len(part) == len(part.keys) == images
