"""SmallNORB as two tasks: the azimuth and the elevation of the camera that photographs a toy.

Each photo is a stereo pair, of which VTAB uses the first image. Its validation images are the first half of the test
split in the order of TFDS; the other half is its test split.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...files import reading
from .dataset import ImageSplit, RawDataset
from .lazy_sequence import LazySequence
from .unpacked import check_labels, damaged_file, find_unzipped

TRAINING = "smallnorb-5x46789x9x18x6x2x96x96-training"
TESTING = "smallnorb-5x01235x9x18x6x2x96x96-testing"
KINDS: dict[int, np.dtype] = {
    0x1E3D4C55: np.dtype(np.uint8),
    0x1E3D4C54: np.dtype("<i4"),
}  # the magic numbers in use


class Factor(NamedTuple):
    """A column of an -info file that is a label after division by ``divisor``."""

    column: int
    divisor: int
    classes: list[str]


# The columns (https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/): instance, elevation 0 … 8, azimuth 0, 2 … 34, lighting.
# TFDS halves the azimuth (tensorflow/datasets, tensorflow_datasets/image/smallnorb.py).
ELEVATION = Factor(1, 1, [f"{30 + 5 * e}°" for e in range(9)])
AZIMUTH = Factor(2, 2, [f"{20 * a}°" for a in range(18)])


def read_smallnorb(root: Path, factor: Factor) -> RawDataset:
    """Read the .mat files; .mat.gz files are unpacked first."""
    train, test = (_read_split(root, stem, factor) for stem in (TRAINING, TESTING))
    return RawDataset(list(factor.classes), train, test)


def _read_split(root: Path, stem: str, factor: Factor) -> ImageSplit:
    images_file = find_unzipped(root, f"{stem}-dat.mat")
    info_file = find_unzipped(root, f"{stem}-info.mat")
    pairs, info = read_matrix(images_file), read_matrix(info_file)
    if pairs.ndim != 4 or pairs.shape[1] != 2 or pairs.dtype != np.uint8:
        raise damaged_file(images_file, f"it has shape {pairs.shape}, which is not that of image pairs")
    if info.shape != (len(pairs), 4):
        raise damaged_file(info_file, f"it has shape {info.shape} for {len(pairs)} image pairs")
    count = len(pairs)
    labels = check_labels(info[:, factor.column] // factor.divisor, len(factor.classes), info_file)
    return ImageSplit(LazySequence(count, lambda i: np.array(pairs[i, 0])), labels, LazySequence(count, str))


def read_matrix(file: Path) -> np.ndarray:
    """Map a matrix in the format of NORB: magic number, number of dimensions, sizes, values.

    All numbers are little-endian; at least three sizes are stored, even if the matrix has fewer dimensions.
    """
    with reading(file, "Download it again."):
        start = np.fromfile(file, "<i4", count=2)
        if len(start) < 2 or int(start[0]) not in KINDS or not 1 <= start[1] <= 8:
            raise damaged_file(file, "it does not begin as a NORB matrix does")
        sizes = np.fromfile(file, "<i4", count=max(3, int(start[1])), offset=8)
        shape = tuple(int(size) for size in sizes[: start[1]])
        kind, offset = KINDS[int(start[0])], 8 + 4 * max(3, int(start[1]))
        if min(shape, default=0) < 1 or file.stat().st_size != offset + np.prod(shape) * kind.itemsize:
            raise damaged_file(file, f"its size does not fit a matrix of {shape}")
        return np.memmap(file, kind, mode="r", offset=offset, shape=shape)
