"""The training, validation and test splits of VTAB.

VTAB (google-research/task_adaptation, task_adaptation/data/*.py, splits train800, val200 and test) defines them as
slices of the splits of TensorFlow Datasets in their stored order, which tfds_order.py computes.
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
    """Where the slices of a dataset begin; train800 is always the beginning of the training split."""

    images: int  # of the complete training split
    val_from: Literal["train", "validation", "test"]  # the split that val200 is a slice of
    others: int  # images of that split
    val: int = 0  # index in it at which val200 begins
    test: int | None = None  # index in it at which the test images begin; None: they are a separate split


# The sizes are those of TensorFlow Datasets; a copy of another size is never called official.
# Caltech101 is missing: its splits depend on the order in which a file system lists folders (natural.py).
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

# The number of published training images, where it is known.
TRAINING_IMAGES = {"cifar10": 50_000} | {name: slices.images for name, slices in VTAB_SLICES.items()}


def full_splits(
    raw: RawDataset, slices: VtabSlices | None, seed: int, notes: list[str]
) -> tuple[ImageSplit, ImageSplit]:
    """Return all training and all test images, also of a dataset that is published without a split."""
    if len(raw.test):
        return raw.train, raw.test
    if slices and slices.test is not None and is_complete(raw.train, slices.images):
        order = tfds_order(raw.train.keys, "train")
        notes.append("It is published without a split; training and test images are VTAB's slices of it.")
        return raw.train.select(order[: slices.val]), raw.train.select(order[slices.test :])
    order = permutation(len(raw.train), make_generator(seed, "test images")).numpy()
    test_count = max(1, len(order) // 5)
    notes.append(f"It is published without a split; a fifth was drawn for testing with seed {seed}.")
    return raw.train.select(np.sort(order[test_count:])), raw.train.select(np.sort(order[:test_count]))


def official_split(raw: RawDataset, slices: VtabSlices) -> tuple[ImageSplit, ImageSplit] | None:
    """Return the training and test images of VTAB, or None if the dataset is incomplete or lacks image keys."""
    second = {"train": raw.train, "validation": raw.val, "test": raw.test}[slices.val_from]
    if second is None or not is_complete(raw.train, slices.images) or not is_complete(second, slices.others):
        return None
    first = tfds_order(raw.train.keys, "train")
    order = first if slices.val_from == "train" else tfds_order(second.keys, slices.val_from)
    train = raw.train.select(first[:TRAIN]).join(second.select(order[slices.val : slices.val + VAL]))
    return train, raw.test if slices.test is None else second.select(order[slices.test :])


def is_complete(part: ImageSplit, images: int) -> bool:
    """Return whether a split has all its published images, with their keys."""
    return len(part) == len(part.keys) == images
