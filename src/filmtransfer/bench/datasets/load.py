"""A named set, ready for a benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ...errors import invalid_choice
from ...seeding import make_generator, permutation
from .dataset import Dataset, DatasetEntry, ImageSplit, RawDataset
from .location import DatasetLocation, find_entry, locate_dataset
from .vtab_splits import PUBLISHED, VTAB_SLICES, full_splits

SetSplit = Literal["official", "random"]


def load_dataset(name: str, root: str | Path, *, split: SetSplit = "official", seed: int = 0) -> Dataset:
    """The whole set: its publisher's training and test images, or both mixed and parted anew by ``seed``.

    The publisher's validation images, where there are any, belong to neither part; of vtab-1k lists,
    which are all there is, the training images are the 1000 of train800 and val200.
    """
    if split not in ("official", "random"):
        raise invalid_choice("split", split, ("official", "random"))
    found = locate_dataset(name, root)
    raw = found.read()
    entry = find_entry(name)
    notes = dataset_notes(raw, entry, found)
    train, test = full_splits(raw, VTAB_SLICES.get(entry.name) if entry else None, seed, notes)
    if found.form == "lists" and raw.val:
        train = train.join(raw.val)
    if split == "random":
        everything = train.join(test)
        order = permutation(len(everything), make_generator(seed, "split")).numpy()
        train, test = everything.select(order[: len(train)]), everything.select(order[len(train) :])
        notes.append(f"Training and test images were mixed and parted anew with seed {seed}.")
    return build_dataset(name, raw, found, train, test, notes)


def build_dataset(
    name: str, raw: RawDataset, found: DatasetLocation, train: ImageSplit, test: ImageSplit, notes: list[str]
) -> Dataset:
    """The data set under its own name, whichever name it was asked for by."""
    entry = find_entry(name)
    title = entry.title if entry else name
    return Dataset(entry.name if entry else name, title, raw.classes, train, test, str(found.place), notes)


def dataset_notes(raw: RawDataset, entry: DatasetEntry | None, found: DatasetLocation) -> list[str]:
    """What the reader of a result has to know about the images."""
    notes = list(found.notes)
    if entry and found.form == "published" and entry.note:
        notes.append(entry.note)
    whole = PUBLISHED.get(entry.name) if entry else None
    if found.form == "lists":
        notes.append("These are VTAB-1k's image lists: there are 1000 training images and no more.")
    elif whole and len(raw.train) != whole:
        notes.append(f"This copy has {len(raw.train):,} training images; the published set has {whole:,}.")
    if entry and len(raw.classes) != entry.classes:
        notes.append(f"It has {len(raw.classes)} classes; {entry.title} has {entry.classes}.")
    return notes
