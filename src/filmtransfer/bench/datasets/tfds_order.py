"""The order in which TensorFlow Datasets (TFDS) stores the images of a split, computed without TensorFlow.

VTAB defines its 800 + 200 training images as slices of that order ("train[:800]"), so the order determines the
members. Examples are sorted by the md5 of the split's name followed by the key of the example, read as one
number (tensorflow/datasets, tensorflow_datasets/core/hashing.py and shuffle.py). The form of a key differs between
datasets; readers store it in ``ImageSplit.keys`` where it is known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np


def tfds_order(keys: Sequence[str], split: str) -> np.ndarray:
    """Return the indices of ``keys`` in the order in which TFDS stores the split named ``split``."""
    salt = hashlib.md5(split.encode(), usedforsecurity=False)

    def sort_key(key: str) -> bytes:
        digest = salt.copy()
        digest.update(key.encode())
        return digest.digest()

    digests = [sort_key(key) for key in keys]
    return np.array(sorted(range(len(keys)), key=digests.__getitem__), dtype=np.int64)
