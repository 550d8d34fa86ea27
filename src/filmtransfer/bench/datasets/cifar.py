"""CIFAR-10 and CIFAR-100, from Python pickles or from binary records.

Loading a pickle can execute any program, so these are loaded with an unpickler that only creates plain values and
NumPy arrays.
"""

from __future__ import annotations

import pickle
from io import BytesIO
from pathlib import Path

import numpy as np

from ...errors import InputError, UpdateFileError
from .dataset import ImageSplit, RawDataset
from .unpacked import check_labels, damaged_by, damaged_file, find_path, one_line, read_lines

PIXELS = 3 * 32 * 32
_NDARRAY = object()  # stands for the class, so that a pickle cannot make an array of any size with it


def _reconstruct(*_: object) -> np.ndarray:
    """Return an empty array, as NumPy's function of this name does when its pickles are loaded; its state follows."""
    return np.ndarray((0,), np.int8)


# The names in CIFAR's pickles, with the module of NumPy 1 and 2, and how protocol 2 encodes bytes.
ALLOWED: dict[tuple[str, str], object] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _NDARRAY,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): lambda text, _: text.encode("latin1"),
}


def read_cifar(folder: Path, classes: int) -> RawDataset:
    """Read the pickles or the binary records.

    The key of an image is its index in the concatenated training files (tensorflow_datasets/image_classification/
    cifar.py reads the binary records; the pickles are assumed to hold the images in the same order).
    """
    try:
        return _read_pickles(folder, classes)
    except InputError as missing:
        try:
            return _read_binary(folder, classes)
        except InputError:
            raise missing from None


def _read_pickles(folder: Path, count: int) -> RawDataset:
    if count == 10:
        home = find_path(folder, "cifar-10-batches-py", "cifar-10-python.tar.gz")
        meta, names, labels = "batches.meta", "label_names", "labels"
        train, test = [f"data_batch_{i}" for i in range(1, 6)], ["test_batch"]
    else:
        home = find_path(folder, "cifar-100-python", "cifar-100-python.tar.gz")
        meta, names, labels = "meta", "fine_label_names", "fine_labels"
        train, test = ["train"], ["test"]

    def read_split(files: list[str]) -> ImageSplit:
        batches = [_batch(find_path(home, name), labels) for name in files]
        return _image_split(home, [x for x, _ in batches], [y for _, y in batches], count)

    return RawDataset(_names(find_path(home, meta), names, count), read_split(train), read_split(test))


def _read_binary(folder: Path, count: int) -> RawDataset:
    if count == 10:
        home = find_path(folder, "cifar-10-batches-bin", "cifar-10-binary.tar.gz")
        names, label_bytes = "batches.meta.txt", 1
        train, test = [f"data_batch_{i}.bin" for i in range(1, 6)], ["test_batch.bin"]
    else:
        home = find_path(folder, "cifar-100-binary", "cifar-100-binary.tar.gz")
        names, label_bytes = "fine_label_names.txt", 2  # the coarse label, then the fine one
        train, test = ["train.bin"], ["test.bin"]

    def read_split(files: list[str]) -> ImageSplit:
        images, labels = [], []
        for name in files:
            file = find_path(home, name)
            content = np.frombuffer(_bytes(file), np.uint8)
            if len(content) == 0 or len(content) % (label_bytes + PIXELS):
                raise damaged_file(file, f"{len(content)} bytes are not a number of complete records")
            rows = content.reshape(-1, label_bytes + PIXELS)
            labels.append(rows[:, label_bytes - 1])
            images.append(rows[:, label_bytes:])
        return _image_split(home, images, labels, count)

    return RawDataset(read_lines(find_path(home, names)), read_split(train), read_split(test))


def _image_split(home: Path, images: list[np.ndarray], labels: list[np.ndarray], count: int) -> ImageSplit:
    """Convert rows of 1024 red, green and blue values to images (N, 32, 32, 3)."""
    pixels = np.concatenate(images).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    checked = check_labels(np.concatenate(labels), count, home)
    return ImageSplit(np.ascontiguousarray(pixels), checked, [str(i) for i in range(len(checked))])


def _batch(file: Path, key: str) -> tuple[np.ndarray, np.ndarray]:
    content = _unpickle(file)
    images, labels = content.get("data"), content.get(key)
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or not isinstance(labels, list):
        raise damaged_file(file, f"it has no data and {key}")
    if images.shape != (len(labels), PIXELS):
        raise damaged_file(file, f"its data are {images.shape} for {len(labels)} labels")
    return images, np.asarray(labels)


def _names(file: Path, key: str, count: int) -> list[str]:
    names = _unpickle(file).get(key)
    if not isinstance(names, list) or len(names) != count:
        raise damaged_file(file, f"it has no {count} {key}")
    return [str(name) for name in names]


class _Unpickler(pickle._Unpickler):
    """The unpickler written in Python: the other one reserves as much memory as a damaged file asks for."""

    def find_class(self, module: str, name: str) -> object:
        if (module, name) not in ALLOWED:
            raise _ForbiddenName(f"{module}.{name}")
        return ALLOWED[module, name]


class _ForbiddenName(Exception):
    """A pickle refers to a function or class that image data do not need."""


def _unpickle(file: Path) -> dict[str, object]:
    try:
        content = _Unpickler(BytesIO(file.read_bytes()), encoding="latin1").load()
    except _ForbiddenName as name:
        raise UpdateFileError(
            f"{file} would run {name}, which image data do not need; it was not loaded.",
            "Download the file from its publisher; this one is malicious.",
        ) from None
    except Exception as error:  # pickle raises many kinds of errors for damaged files
        raise damaged_file(file, one_line(error)) from None
    if not isinstance(content, dict):
        raise damaged_file(file, "it is not a table")
    return content


def _bytes(file: Path) -> bytes:
    with damaged_by(file, OSError):
        return file.read_bytes()
