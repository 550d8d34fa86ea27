"""Load a complete dataset by name."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ...errors import check_choice
from ...seeding import make_generator, permutation
from .dataset import Dataset, DatasetEntry, ImageSplit, RawDataset
from .location import DatasetLocation, find_entry, locate_dataset
from .vtab_splits import TRAINING_IMAGES, VTAB_SLICES, full_splits

DatasetSplit = Literal["official", "random"]


def load_dataset(name: str, root: str | Path, *, split: DatasetSplit = "official", seed: int = 0) -> Dataset:
    """Load the training and test images of the publisher, or a random split of both that ``seed`` determines.

    Validation images of the publisher belong to neither split. From vtab-1k image lists, which hold no other
    images, the training images are the 1000 of train800 and val200.
    """
    check_choice("split", split, ("official", "random"))
    location = locate_dataset(name, root)
    raw = location.read()
    entry = find_entry(name)
    notes = dataset_notes(raw, entry, location)
    train, test = full_splits(raw, VTAB_SLICES.get(entry.name) if entry else None, seed, notes)
    if location.form == "lists" and raw.val:
        train = train.join(raw.val)
    if split == "random":
        everything = train.join(test)
        order = permutation(len(everything), make_generator(seed, "split")).numpy()
        train, test = everything.select(order[: len(train)]), everything.select(order[len(train) :])
        notes.append(f"Training and test images were shuffled and split again with seed {seed}.")
    return build_dataset(name, raw, location, train, test, notes)


def build_dataset(
    name: str,
    raw: RawDataset,
    location: DatasetLocation,
    train: ImageSplit,
    test: ImageSplit,
    notes: list[str],
) -> Dataset:
    """Return the dataset under its name in the catalogue, whichever alias was used."""
    entry = find_entry(name)
    title = entry.title if entry else name
    return Dataset(entry.name if entry else name, title, raw.classes, train, test, str(location.path), notes)


def dataset_notes(raw: RawDataset, entry: DatasetEntry | None, location: DatasetLocation) -> list[str]:
    """Return what a reader of the results has to know about the images."""
    notes = list(location.notes)
    if entry and location.form == "published" and entry.note:
        notes.append(entry.note)
    published = TRAINING_IMAGES.get(entry.name) if entry else None
    if location.form == "lists":
        notes.append("These are VTAB-1k's image lists: there are 1000 training images and no more.")
    elif published and len(raw.train) != published:
        notes.append(
            f"This copy has {len(raw.train):,} training images; the published set has {published:,}."
        )
    if entry and len(raw.classes) != entry.classes:
        notes.append(f"It has {len(raw.classes)} classes; {entry.title} has {entry.classes}.")
    return notes
