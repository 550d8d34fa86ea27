"""CIFAR-10 and CIFAR-100: as pickles for Python, or as plain binary records.

A pickle can run any program when it is opened, so these are opened with an unpickler that can only make
plain values and NumPy arrays.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError, UpdateFileError
from .dataset import ImageSplit, RawDataset
from .plain_formats import one_line, read_lines
from .unpacked import check_labels, damaged_file, find_path

PIXELS = 3 * 32 * 32
_RECONSTRUCT: Any = np.empty(0).__reduce__()[0]
# What CIFAR's pickles name, with the module NumPy has had since version 2, and how protocol 2 spells bytes.
ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): lambda text, _: text.encode("latin1"),
}


def read_cifar(folder: Path, classes: int) -> RawDataset:
    """Keys: the position in the training files in a row (tensorflow_datasets/image_classification/cifar.py).

    That is said of the binary records; the pickles are taken to hold the images in the same order.
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
        about, names, labels = "batches.meta", "label_names", "labels"
        train, test = [f"data_batch_{i}" for i in range(1, 6)], ["test_batch"]
    else:
        home = find_path(folder, "cifar-100-python", "cifar-100-python.tar.gz")
        about, names, labels = "meta", "fine_label_names", "fine_labels"
        train, test = ["train"], ["test"]

    def part(files: list[str]) -> ImageSplit:
        batches = [_batch(find_path(home, name), labels) for name in files]
        return _part(home, [x for x, _ in batches], [y for _, y in batches], count)

    return RawDataset(_names(find_path(home, about), names, count), part(train), part(test))


def _read_binary(folder: Path, count: int) -> RawDataset:
    if count == 10:
        home = find_path(folder, "cifar-10-batches-bin", "cifar-10-binary.tar.gz")
        names, before = "batches.meta.txt", 1
        train, test = [f"data_batch_{i}.bin" for i in range(1, 6)], ["test_batch.bin"]
    else:
        home = find_path(folder, "cifar-100-binary", "cifar-100-binary.tar.gz")
        names, before = "fine_label_names.txt", 2  # the coarse label, then the fine one
        train, test = ["train.bin"], ["test.bin"]

    def part(files: list[str]) -> ImageSplit:
        images, labels = [], []
        for name in files:
            file = find_path(home, name)
            content = np.frombuffer(_bytes(file), np.uint8)
            if len(content) == 0 or len(content) % (before + PIXELS):
                raise damaged_file(file, f"{len(content)} bytes are not a number of whole records")
            rows = content.reshape(-1, before + PIXELS)
            labels.append(rows[:, before - 1])
            images.append(rows[:, before:])
        return _part(home, images, labels, count)

    return RawDataset(read_lines(find_path(home, names)), part(train), part(test))


def _part(home: Path, images: list[np.ndarray], labels: list[np.ndarray], count: int) -> ImageSplit:
    """Rows of 1024 reds, greens and blues become images (N, 32, 32, 3)."""
    pixels = np.concatenate(images).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    numbers = check_labels(np.concatenate(labels), count, home)
    return ImageSplit(np.ascontiguousarray(pixels), numbers, [str(i) for i in range(len(numbers))])


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


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise _Refused(f"{module}.{name}")
        return ALLOWED[module, name]


class _Refused(Exception):
    """A pickle names something that image data have no use for."""


def _unpickle(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            content = _Unpickler(stream, encoding="latin1").load()
    except _Refused as refused:
        raise UpdateFileError(
            f"{file} would run {refused}, which image data have no use for; it was not opened.",
            "Get the file from its publisher; this one was made to do harm.",
        ) from None
    except Exception as error:  # pickle raises many kinds for damaged files
        raise damaged_file(file, one_line(error)) from None
    if not isinstance(content, dict):
        raise damaged_file(file, "it is not a table")
    return content


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise damaged_file(file, one_line(error)) from None
