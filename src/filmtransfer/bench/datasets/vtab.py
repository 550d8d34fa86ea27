"""VTAB-1k: 1000 images of a set to learn from, and those it is tested on.

Which 1000 these are is known from image lists, or computed (cuts.py); otherwise they can only be drawn.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from ...errors import InputError, invalid_choice
from ...seeding import make_generator, permutation
from .base import DataSet, Part, Raw
from .cuts import COUNT, CUTS, Cut, complete, cut, whole_parts
from .find import entry_of, find
from .load import made, notes_on
from .order import stored_order

VtabSplit = Literal["official", "random", "released"]
SPLITS = ("official", "random", "released")
LISTED = "Its 1000 training images are those of the image lists, train800 and val200."
COMPUTED = "Its 1000 training images are VTAB's, computed from the order in which TensorFlow Datasets stores the set."


def load_vtab(name: str, root: str | Path, *, split: VtabSplit = "official", seed: int = 0) -> DataSet:
    """1000 training images and the test images. ``notes`` says which members these are.

    ``official``: the benchmark's, or, where they cannot be known, as ``random`` and with a note.
    ``random``: drawn by ``seed`` from the training split. ``released``: the first 1000 of the training split
    as TensorFlow Datasets stores it, which the authors of FiT used (cambridge-mlg/fit, tf_dataset_reader.py).
    """
    if split not in SPLITS:
        raise invalid_choice("split", split, SPLITS)
    entry, found = entry_of(name), find(name, root)
    raw = found.read()
    notes = notes_on(raw, entry, found)
    rule = CUTS.get(entry.name) if entry and found.form == "published" else None
    if found.form == "lists":
        train, test = raw.train.join(raw.val) if raw.val else raw.train, raw.test
        notes.append(LISTED + ("" if split == "official" else f" There are no others to take for {split!r}."))
    elif split == "released":
        train, test = _first(raw, rule, notes)
    else:
        parts = cut(raw, rule) if rule and split == "official" else None
        if parts:
            train, test = parts
            notes.append(COMPUTED)
        else:
            train, test = _drawn(raw, rule, seed, notes)
            if split == "official":
                notes.append("The benchmark's own 1000 cannot be known from these files: results may differ.")
    return made(name, raw, found, train, test, notes)


def _drawn(raw: Raw, rule: Cut | None, seed: int, notes: list[str]) -> tuple[Part, Part]:
    train, test = whole_parts(raw, rule, seed, notes)
    if len(train) <= COUNT:
        notes.append(f"All {len(train)} training images were taken.")
        return train, test
    order = permutation(len(train), make_generator(seed, "vtab")).numpy()[:COUNT]
    notes.append(f"Its {COUNT} training images were drawn with seed {seed}.")
    return train.pick(np.sort(order)), test


def _first(raw: Raw, rule: Cut | None, notes: list[str]) -> tuple[Part, Part]:
    known = rule is not None and complete(raw.train, rule.images)
    order = stored_order(raw.train.keys, "train") if known else np.arange(len(raw.train))
    where = "as TensorFlow Datasets stores them" if known else "in the order of the files at hand"
    notes.append(f"Its training images are the first {min(COUNT, len(order))} of the training split {where}.")
    test = raw.test if len(raw.test) else raw.train.pick(order[COUNT:])
    if len(test) == 0:
        raise InputError(
            f"There are only {len(order)} images, and none is left to test on.", "Get the whole set."
        )
    return raw.train.pick(order[:COUNT]), test
