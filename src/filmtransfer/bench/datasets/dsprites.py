"""dSprites as two tasks: the horizontal position of the sprite, and its orientation.

One file holds 737280 images of 64×64 pixels, 3 GB uncompressed and 26 MB compressed. The pixels are 0 or 1, so the
images are kept in memory as bits, compressed in small blocks that can be decompressed one by one.
"""

from __future__ import annotations

import threading
import zipfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np

from .dataset import ImageSplit, RawDataset
from .lazy_sequence import LazySequence
from .unpacked import check_labels, damaged_by, damaged_file, find_path

NAME = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
BLOCK = 256  # images compressed together
UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)

# google-research/task_adaptation, task_adaptation/data/dsprites.py and scripts/run_all_tasks.sh: the column
# of latents_classes (colour, shape, scale, orientation, x, y) is divided by the number of its values over
# 16 and rounded down: 40/16 = 2.5 orientations a bin, 32/16 = 2 positions.
BINS = 16
ORIENTATION, X_POSITION = (3, 40), (4, 32)  # column, number of values


def read_dsprites(root: Path, latent: tuple[int, int]) -> RawDataset:
    """Read all images as training images in the published order; VTAB tests on the last 10% in the order of TFDS."""
    column, values = latent
    file = find_path(root, NAME)
    images = BinaryImages(file)
    with damaged_by(file, *UNREADABLE), np.load(file, allow_pickle=False) as packed:
        latents = packed["latents_classes"]
    if latents.ndim != 2 or latents.shape != (images.count, 6) or latents.dtype.kind not in "iu":
        raise damaged_file(file, f"latents_classes has shape {latents.shape} for {images.count} images")
    classes = [str(b) for b in range(BINS)]
    labels = check_labels(latents[:, column].astype(np.int64) * BINS // values, BINS, file)
    train = ImageSplit(LazySequence(images.count, images.image), labels, LazySequence(images.count, str))
    return RawDataset(classes, train, ImageSplit((), np.zeros(0, np.int64)))


class BinaryImages:
    """The array ``imgs`` of an .npz file as compressed bits; the file is read when the first image is accessed."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.blocks: list[bytes] = []
        self.lock = threading.Lock()  # several threads decode images
        with damaged_by(file, *UNREADABLE), zipfile.ZipFile(file) as packed:
            shape, columns_first, dtype = _header(packed.open("imgs.npy"))
        if len(shape) != 3 or shape[1] * shape[2] % 8 or columns_first or dtype != np.uint8:
            raise damaged_file(file, f"imgs is {dtype} of shape {shape}")
        self.count, self.height, self.width = shape

    def image(self, index: int) -> np.ndarray:
        """Return one image with pixels 0 or 255."""
        with self.lock:
            if not self.blocks:
                self.blocks = self._pack()
        block, offset = divmod(index, BLOCK)
        size = self.height * self.width // 8
        bits = zlib.decompress(self.blocks[block])[offset * size : (offset + 1) * size]
        pixels = np.unpackbits(np.frombuffer(bits, np.uint8)).reshape(self.height, self.width)
        return pixels * np.uint8(255)

    def _pack(self) -> list[bytes]:
        blocks = []
        size = self.height * self.width
        with damaged_by(self.file, *UNREADABLE), zipfile.ZipFile(self.file) as packed:
            array = packed.open("imgs.npy")
            _header(array)
            for start in range(0, self.count, BLOCK):
                expected = min(BLOCK, self.count - start) * size
                pixels = np.frombuffer(array.read(expected), np.uint8)
                if len(pixels) < expected:
                    raise EOFError("imgs is truncated")
                if pixels.max() > 1:
                    raise ValueError("imgs has values other than 0 and 1")
                blocks.append(zlib.compress(np.packbits(pixels).tobytes(), 1))
        return blocks


def _header(array: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Read shape, order and type from the header of an .npy file; the file is left at the first pixel."""
    if np.lib.format.read_magic(array) == (1, 0):
        return np.lib.format.read_array_header_1_0(array)
    return np.lib.format.read_array_header_2_0(array)
