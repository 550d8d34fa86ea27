"""The order in which TensorFlow Datasets stores the images of a split, computed without TensorFlow.

VTAB names its 800 + 200 training images as slices of that order ("train[:800]"), so who knows the order
knows the members. The order is by the md5 of the split's name followed by the key of the example, read as
one number (tensorflow/datasets, tensorflow_datasets/core/hashing.py and shuffle.py). What the key of an
example is differs from set to set; readers put it into ``ImageSplit.keys`` where its form is known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np


def tfds_order(keys: Sequence[str], split: str) -> np.ndarray:
    """Positions of ``keys`` in the order in which the split named ``split`` is stored."""
    salt = hashlib.md5(split.encode(), usedforsecurity=False)

    def place(key: str) -> bytes:
        digest = salt.copy()
        digest.update(key.encode())
        return digest.digest()

    places = [place(key) for key in keys]
    return np.array(sorted(range(len(keys)), key=places.__getitem__), dtype=np.int64)
