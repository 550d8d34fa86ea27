"""Load the VTAB-1k version of a dataset: 1000 training images, and the test images.

The 1000 images are known from image lists or computed (vtab_splits.py); otherwise they are drawn at random.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from ...errors import InputError, check_choice
from ...seeding import make_generator, permutation
from .dataset import Dataset, ImageSplit, RawDataset
from .load import build_dataset, dataset_notes
from .location import find_entry, locate_dataset
from .tfds_order import tfds_order
from .vtab_splits import COUNT, VTAB_SLICES, VtabSlices, full_splits, is_complete, official_split

VtabSplit = Literal["official", "random", "released"]
SPLITS = ("official", "random", "released")
LISTED = "Its 1000 training images are those of the image lists, train800 and val200."
COMPUTED = "Its 1000 training images are VTAB's, computed from the order in which TensorFlow Datasets stores the set."


def load_vtab(name: str, root: str | Path, *, split: VtabSplit = "official", seed: int = 0) -> Dataset:
    """Load 1000 training images and the test images; ``notes`` says which images these are.

    ``official`` is the split of the benchmark or, where it is unknown, ``random`` with a note. ``random`` draws
    from the training split with ``seed``. ``released`` takes the first 1000 of the training split as TensorFlow
    Datasets stores it, which the authors of FiT used (cambridge-mlg/fit, tf_dataset_reader.py).
    """
    check_choice("split", split, SPLITS)
    entry, location = find_entry(name), locate_dataset(name, root)
    raw = location.read()
    notes = dataset_notes(raw, entry, location)
    slices = VTAB_SLICES.get(entry.name) if entry and location.form == "published" else None
    if location.form == "lists":
        train, test = raw.train.join(raw.val) if raw.val else raw.train, raw.test
        notes.append(LISTED + ("" if split == "official" else f" There are no other images for {split!r}."))
    elif split == "released":
        train, test = _first(raw, slices, notes)
    else:
        parts = official_split(raw, slices) if slices and split == "official" else None
        if parts:
            train, test = parts
            notes.append(COMPUTED)
        else:
            train, test = _drawn(raw, slices, seed, notes)
            if split == "official":
                notes.append(
                    "The benchmark's own 1000 images cannot be determined from these files: results may differ."
                )
    return build_dataset(name, raw, location, train, test, notes)


def _drawn(
    raw: RawDataset, slices: VtabSlices | None, seed: int, notes: list[str]
) -> tuple[ImageSplit, ImageSplit]:
    train, test = full_splits(raw, slices, seed, notes)
    if len(train) <= COUNT:
        notes.append(f"All {len(train)} training images were taken.")
        return train, test
    order = permutation(len(train), make_generator(seed, "vtab")).numpy()[:COUNT]
    notes.append(f"Its {COUNT} training images were drawn with seed {seed}.")
    return train.select(np.sort(order)), test


def _first(raw: RawDataset, slices: VtabSlices | None, notes: list[str]) -> tuple[ImageSplit, ImageSplit]:
    known = slices is not None and is_complete(raw.train, slices.images)
    order = tfds_order(raw.train.keys, "train") if known else np.arange(len(raw.train))
    order_note = "as TensorFlow Datasets stores them" if known else "in the order of the files at hand"
    notes.append(
        f"Its training images are the first {min(COUNT, len(order))} of the training split {order_note}."
    )
    test = raw.test if len(raw.test) else raw.train.select(order[COUNT:])
    if len(test) == 0:
        raise InputError(
            f"There are only {len(order)} images, and none remains to test on.", "Get the complete dataset."
        )
    return raw.train.select(order[:COUNT]), test
