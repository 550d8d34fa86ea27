"""Patch Camelyon: does the centre of a patch of lymph node tissue contain tumour?

Published as HDF5 files with three splits, which are used unchanged. Images are read one by one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...errors import MissingExtraError
from .dataset import DatasetEntry, ImageSplit, PublishedFile, RawDataset
from .lazy_sequence import LazySequence
from .unpacked import check_labels, damaged_file, find_unzipped, one_line, search_patterns

if TYPE_CHECKING:
    import h5py

STEM = "camelyonpatch_level_2_split"
CLASSES = ["normal", "tumour"]


def read(root: Path) -> RawDataset:
    """Read the .h5 files; .h5.gz files are unpacked first."""
    train, val, test = (_read_split(root, split) for split in ("train", "valid", "test"))
    return RawDataset(list(CLASSES), train, test, val)


def _read_split(root: Path, split: str) -> ImageSplit:
    images_file = find_unzipped(root, f"{STEM}_{split}_x.h5")
    labels_file = find_unzipped(root, f"{STEM}_{split}_y.h5")
    images, targets = _open(images_file, "x"), _open(labels_file, "y")
    if len(images.shape) != 4 or images.shape[3] != 3 or images.dtype != np.uint8:
        raise damaged_file(images_file, f"x is {images.dtype} of shape {images.shape}")
    count = len(images)
    if targets.shape != (count, 1, 1, 1):
        raise damaged_file(labels_file, f"y has shape {targets.shape} for {count} images")

    def image(index: int) -> np.ndarray:
        try:
            return np.asarray(images[index])
        except (OSError, RuntimeError) as error:
            raise damaged_file(images_file, one_line(error)) from None

    try:
        labels = check_labels(np.asarray(targets[:, 0, 0, 0]), len(CLASSES), labels_file)
    except (OSError, RuntimeError) as error:
        raise damaged_file(labels_file, one_line(error)) from None
    # Keys as in tensorflow/datasets, tensorflow_datasets/image_classification/patch_camelyon.py.
    return ImageSplit(LazySequence(count, image), labels, LazySequence(count, lambda i: f"{split}_{i}"))


def _open(file: Path, name: str) -> h5py.Dataset:
    """Return an array of an HDF5 file, which stays on disk."""
    try:
        import h5py
    except ImportError:
        raise MissingExtraError("Reading Patch Camelyon's HDF5 files", "bench") from None
    try:
        array = h5py.File(file, "r").get(name)
    except (OSError, RuntimeError) as error:
        raise damaged_file(file, one_line(error)) from None
    if not isinstance(array, h5py.Dataset):
        raise damaged_file(file, f"it has no array {name}")
    return array


# The checksums are those of tensorflow/datasets, tensorflow_datasets/url_checksums/patch_camelyon.txt. The
# publisher's README and torchvision disagree about the md5 of valid and test, so none is given.
PATCH_CAMELYON = DatasetEntry(
    name="patch_camelyon",
    title="Camelyon",
    classes=len(CLASSES),
    home="https://github.com/basveeling/pcam",
    licence="CC0 1.0",
    files=tuple(
        PublishedFile(
            f"{STEM}_{part}.h5.gz",
            f"https://zenodo.org/record/2546921/files/{STEM}_{part}.h5.gz",
            sha256=digest,
            bytes=size,
        )
        for part, digest, size in (
            ("train_x", "d619e741468a7ab35c7e4a75e6821b7e7e6c9411705d45708f2a0efc8960656c", 6421353462),
            ("train_y", "b74126d2c01b20d3661f9b46765d29cf4e4fba6faba29c8e0d09d406331ab75a", 21378),
            ("valid_x", "f82ee1670d027b4ec388048d9eabc2186b77c009655dae76d624c0ecb053ccb2", 805965320),
            ("valid_y", "ce1ae30f08feb468447971cfd0472e7becd0ad96d877c64120c72571439ae48c", 3038),
            ("test_x", "79174c2201ad521602a5888be8f36ee10875f37403dd3f2086caf2182ef87245", 800875929),
            ("test_y", "0a522005fccc8bbd04c5a117bfaf81d8da2676f03a29d7499f71d0a0bd6068ef", 3040),
        )
    ),
    read=read,
    group="specialized",
    free=True,
    aliases=("pcam",),
    markers=search_patterns(f"{STEM}_train_x.h5", f"{STEM}_train_x.h5.gz"),
)
