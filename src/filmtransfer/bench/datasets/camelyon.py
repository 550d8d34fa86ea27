"""Patch Camelyon: does the centre of a patch of lymph node tissue contain tumour?

Published as HDF5 files with three splits, which are used unchanged. Images are read one by one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...errors import MissingExtraError
from .dataset import ImageSplit, RawDataset
from .lazy_sequence import LazySequence
from .unpacked import check_labels, damaged_by, damaged_file, find_unzipped

if TYPE_CHECKING:
    import h5py

STEM = "camelyonpatch_level_2_split"
CLASSES = ["normal", "tumour"]


def read_camelyon(root: Path) -> RawDataset:
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
        with damaged_by(images_file, OSError, RuntimeError):
            return np.asarray(images[index])

    with damaged_by(labels_file, OSError, RuntimeError):
        labels = check_labels(np.asarray(targets[:, 0, 0, 0]), len(CLASSES), labels_file)
    # Keys as in tensorflow/datasets, tensorflow_datasets/image_classification/patch_camelyon.py.
    return ImageSplit(LazySequence(count, image), labels, LazySequence(count, lambda i: f"{split}_{i}"))


def _open(file: Path, name: str) -> h5py.Dataset:
    """Return an array of an HDF5 file, which stays on disk."""
    try:
        import h5py
    except ImportError:
        raise MissingExtraError("Reading Patch Camelyon's HDF5 files", "bench") from None
    with damaged_by(file, OSError, RuntimeError):
        array = h5py.File(file, "r").get(name)
    if not isinstance(array, h5py.Dataset):
        raise damaged_file(file, f"it has no array {name}")
    return array
