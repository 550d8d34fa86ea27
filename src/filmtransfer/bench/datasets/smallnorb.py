"""SmallNORB as two tasks: the azimuth and the elevation of the camera that photographs a toy.

Each photo is a stereo pair, of which VTAB uses the first image. Its validation images are the first half of the test
split in the order of TFDS; the other half is its test split.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from ...errors import InputError
from .dataset import DatasetEntry, ImageSplit, PublishedFile, RawDataset
from .lazy_sequence import LazySequence
from .unpacked import check_labels, damaged_file, find_unzipped, search_patterns

HOME = "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/"
TRAINING = "smallnorb-5x46789x9x18x6x2x96x96-training"
TESTING = "smallnorb-5x01235x9x18x6x2x96x96-testing"
KINDS: dict[int, np.dtype] = {
    0x1E3D4C55: np.dtype(np.uint8),
    0x1E3D4C54: np.dtype("<i4"),
}  # the magic numbers in use

# The columns of an -info file, from the page above: instance, elevation 0 … 8, azimuth 0, 2 … 34, lighting.
# TFDS halves the azimuth (tensorflow/datasets, tensorflow_datasets/image/smallnorb.py).
ELEVATION, AZIMUTH = (1, 1), (2, 2)  # column, divisor
ELEVATIONS = [f"{30 + 5 * e}°" for e in range(9)]
AZIMUTHS = [f"{20 * a}°" for a in range(18)]


def read(root: Path, column: int, step: int, classes: list[str]) -> RawDataset:
    """Read the .mat files; .mat.gz files are unpacked first."""
    train, test = (_read_split(root, stem, column, step, classes) for stem in (TRAINING, TESTING))
    return RawDataset(list(classes), train, test)


def _read_split(root: Path, stem: str, column: int, step: int, classes: list[str]) -> ImageSplit:
    images_file = find_unzipped(root, f"{stem}-dat.mat")
    info_file = find_unzipped(root, f"{stem}-info.mat")
    pairs, info = read_matrix(images_file), read_matrix(info_file)
    if pairs.ndim != 4 or pairs.shape[1] != 2 or pairs.dtype != np.uint8:
        raise damaged_file(images_file, f"it has shape {pairs.shape}, which is not that of image pairs")
    if info.shape != (len(pairs), 4):
        raise damaged_file(info_file, f"it has shape {info.shape} for {len(pairs)} image pairs")
    count = len(pairs)
    labels = check_labels(info[:, column] // step, len(classes), info_file)
    return ImageSplit(LazySequence(count, lambda i: np.array(pairs[i, 0])), labels, LazySequence(count, str))


def read_matrix(file: Path) -> np.ndarray:
    """Map a matrix in the format of NORB: magic number, number of dimensions, sizes, values.

    All numbers are little-endian; at least three sizes are stored, even if the matrix has fewer dimensions.
    """
    try:
        start = np.fromfile(file, "<i4", count=2)
        if len(start) < 2 or int(start[0]) not in KINDS or not 1 <= start[1] <= 8:
            raise damaged_file(file, "it does not begin as a NORB matrix does")
        sizes = np.fromfile(file, "<i4", count=max(3, int(start[1])), offset=8)
        shape = tuple(int(size) for size in sizes[: start[1]])
        kind, offset = KINDS[int(start[0])], 8 + 4 * max(3, int(start[1]))
        if min(shape, default=0) < 1 or file.stat().st_size != offset + np.prod(shape) * kind.itemsize:
            raise damaged_file(file, f"its size does not fit a matrix of {shape}")
        return np.memmap(file, kind, mode="r", offset=offset, shape=shape)
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}).", "Download it again.") from None


# The checksums are those of tensorflow/datasets, tensorflow_datasets/url_checksums/smallnorb.txt.
# The -cat files hold the category of the toy, which neither task needs.
FILES = tuple(
    PublishedFile(f"{stem}-{kind}.mat.gz", f"{HOME}{stem}-{kind}.mat.gz", sha256=digest, bytes=size)
    for stem, kind, digest, size in (
        (TRAINING, "dat", "5ffd6272a07d32695ee1082a26a41a93a37aab8c28da047f8c34ed348d214873", 131896188),
        (TRAINING, "info", "de7eb932ebe7a4ee16217fead60660d0eb3d23632c2f4d1c51f88c501c17bf32", 71052),
        (TESTING, "dat", "cf7104eed3e51174d2f65b66d1e5878b9da233b886f161b0d88f4510ba2c7474", 130799817),
        (TESTING, "info", "16adf314226327ee006d1a44db8cfef52773c06c829951d5653a9f6f310248a2", 10428),
    )
)


def _entry(name: str, title: str, factor: tuple[int, int], classes: list[str], alias: str) -> DatasetEntry:
    column, step = factor
    return DatasetEntry(
        name=name,
        title=title,
        classes=len(classes),
        home=HOME,
        licence="research only, may not be sold",
        files=FILES,
        read=partial(read, column=column, step=step, classes=classes),
        group="structured",
        free=True,
        aliases=(alias,),
        markers=search_patterns(f"{TRAINING}-dat.mat", f"{TRAINING}-dat.mat.gz"),
    )


SMALLNORB_AZIMUTH = _entry("smallnorb_azimuth", "sNORB-azi", AZIMUTH, AZIMUTHS, "smallnorb_azi")
SMALLNORB_ELEVATION = _entry("smallnorb_elevation", "sNORB-elev", ELEVATION, ELEVATIONS, "smallnorb_ele")
