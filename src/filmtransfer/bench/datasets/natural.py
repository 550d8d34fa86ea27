"""The natural datasets of VTAB, and CIFAR-10, read from the published files.

``ImageSplit.keys`` are the keys under which TensorFlow Datasets stores the images, because the 1000 training images of
VTAB are slices of its order (tfds_order.py); each reader documents the source of its keys. Sizes and checksums of the
files are those that TensorFlow Datasets (url_checksums) and torchvision publish.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from ...data.images import find_images
from ...errors import InputError
from ...seeding import make_generator, permutation
from .dataset import ImageSplit, RawDataset
from .flowers import FLOWERS
from .matlab import read_matlab
from .unpacked import check_labels, damaged_file, find_path, read_lines, read_text, require_files

DRAWN_PER_CLASS = 30  # training images of a Caltech-101 class


def read_caltech101(folder: Path) -> RawDataset:
    """Read 101_ObjectCategories/<class>/image_0001.jpg: 102 classes with the background class.

    Caltech publishes no split. The split of VTAB is that of TensorFlow Datasets, which draws 30 images of each
    class in the order in which the file system lists the folders (tensorflow_datasets/image_classification/
    caltech.py) and cannot be reproduced without its files. This reader draws 30 of each class too.
    """
    home = find_path(folder, "101_ObjectCategories", "101_ObjectCategories.tar.gz")
    classes = sorted((child.name for child in home.iterdir() if child.is_dir()), key=str.lower)
    train: list[tuple[Path, int]] = []
    test: list[tuple[Path, int]] = []
    for label, name in enumerate(classes):
        images = find_images(home / name)
        order = permutation(len(images), make_generator(0, "caltech101", name)).tolist()
        drawn = set(order[: min(DRAWN_PER_CLASS, len(images) - 1)])
        for i, image in enumerate(images):
            (train if i in drawn else test).append((image, label))
    if not train:
        raise InputError(f"There are no images in {home}.", "Unpack 101_ObjectCategories.tar.gz again.")

    def split_of(images: list[tuple[Path, int]]) -> ImageSplit:
        return ImageSplit(
            [path for path, _ in images], check_labels([y for _, y in images], len(classes), home)
        )

    return RawDataset([name.lower() for name in classes], split_of(train), split_of(test))


def read_flowers102(folder: Path) -> RawDataset:
    """Read jpg/image_00001.jpg, the labels in imagelabels.mat, and the published split in setid.mat.

    The key of an image is its file name (tensorflow_datasets/image_classification/oxford_flowers102.py).
    """
    labels_file, split_file = find_path(folder, "imagelabels.mat"), find_path(folder, "setid.mat")
    labels = read_matlab(labels_file, "labels").ravel().astype(np.int64) - 1
    images = find_path(folder, "jpg", "102flowers.tgz")

    def read_split(ids: str) -> ImageSplit:
        numbers = read_matlab(split_file, ids).ravel().astype(np.int64)
        if len(numbers) == 0 or numbers.min() < 1 or numbers.max() > len(labels):
            raise damaged_file(split_file, f"{ids} does not fit the {len(labels)} labels")
        names = [f"image_{n:05d}.jpg" for n in numbers]
        paths = [images / name for name in names]
        require_files(paths, split_file)
        return ImageSplit(paths, check_labels(labels[numbers - 1], len(FLOWERS), labels_file), names)

    return RawDataset(list(FLOWERS), read_split("trnid"), read_split("tstid"), read_split("valid"))


def read_oxford_pets(folder: Path) -> RawDataset:
    """Read images/Abyssinian_1.jpg, and the names and classes in annotations/trainval.txt and test.txt.

    The key of an image is its file name (tensorflow_datasets/image_classification/oxford_iiit_pet.py).
    """
    images = find_path(folder, "images", "images.tar.gz")
    lists = {s: find_path(folder, f"annotations/{s}.txt", "annotations.tar.gz") for s in ("trainval", "test")}
    rows: dict[str, list[tuple[str, int]]] = {}
    names: dict[int, str] = {}
    for split, file in lists.items():
        rows[split] = []
        for line in read_lines(file):
            fields = line.split()
            if len(fields) < 2 or not fields[1].isdecimal():
                raise damaged_file(file, f"{line[:40]!r} is not a name and a class")
            rows[split].append((fields[0], int(fields[1]) - 1))
            names.setdefault(int(fields[1]) - 1, fields[0].rpartition("_")[0])
    if sorted(names) != list(range(len(names))):
        raise damaged_file(lists["trainval"], "its classes are not numbered from 1")

    def read_split(split: str) -> ImageSplit:
        keys = [f"{name}.jpg" for name, _ in rows[split]]
        paths = [images / key for key in keys]
        require_files(paths, lists[split])
        return ImageSplit(paths, check_labels([y for _, y in rows[split]], len(names), lists[split]), keys)

    return RawDataset([names[i] for i in range(len(names))], read_split("trainval"), read_split("test"))


def read_sun397(folder: Path) -> RawDataset:
    """Read SUN397/a/abbey/sun_….jpg with the split of TensorFlow Datasets, or else the first partition of SUN.

    VTAB uses the former (sun397_tfds_tr.txt, _va.txt, _te.txt in tensorflow_datasets/image_classification);
    its lists are not in the archive of SUN but can be put next to it. The key of an image is its path from /a/ on
    (sun.py there).
    """
    home = find_path(folder, "SUN397", "SUN397.tar.gz")
    try:
        lists = [find_path(folder, f"sun397_tfds_{split}.txt") for split in ("tr", "te", "va")]
    except InputError:
        lists = [find_path(folder, f"{name}_01.txt", "Partitions.zip") for name in ("Training", "Testing")]
    rows = {file: read_lines(file) for file in lists}
    return _listed(home, rows, lambda line: line.rpartition("/")[0], has_keys=len(lists) == 3)


def read_svhn(folder: Path) -> RawDataset:
    """Read train_32x32.mat and test_32x32.mat: X (32, 32, 3, N), and y from 1 to 10, where 10 is the digit 0.

    The key of an image is its index in the file (tensorflow_datasets/image_classification/svhn.py).
    """

    def read_split(name: str) -> ImageSplit:
        file = find_path(folder, name)
        images, labels = read_matlab(file, "X"), read_matlab(file, "y").ravel().astype(np.int64)
        if images.ndim != 4 or images.dtype != np.uint8 or images.shape[3] != len(labels):
            raise damaged_file(file, f"X is {images.dtype} {images.shape} for {len(labels)} labels")
        keys = [str(i) for i in range(len(labels))]
        return ImageSplit(
            np.ascontiguousarray(images.transpose(3, 0, 1, 2)), check_labels(labels % 10, 10, file), keys
        )

    return RawDataset(
        [str(digit) for digit in range(10)], read_split("train_32x32.mat"), read_split("test_32x32.mat")
    )


def read_dtd(folder: Path) -> RawDataset:
    """Read images/banded/banded_0002.jpg, and the first published split: labels/train1.txt, val1.txt, test1.txt.

    The key of an image is its line in the list (tensorflow_datasets/image_classification/dtd.py).
    """
    lists = [
        find_path(folder, f"labels/{name}1.txt", "dtd-r1.0.1.tar.gz") for name in ("train", "test", "val")
    ]
    rows = {file: read_text(file).split() for file in lists}
    return _listed(lists[0].parent.parent / "images", rows, lambda line: line.partition("/")[0])


def _listed(
    home: Path, rows: Mapping[Path, list[str]], class_of: Callable[[str], str], has_keys: bool = True
) -> RawDataset:
    """Return the splits of lists whose lines are the paths of images below ``home``, which contain the class."""
    classes = sorted({class_of(line) for lines in rows.values() for line in lines})
    class_index = {name: i for i, name in enumerate(classes)}
    splits = []
    for file, lines in rows.items():
        paths = [home / line.lstrip("/") for line in lines]
        require_files(paths, file)
        labels = check_labels([class_index[class_of(line)] for line in lines], len(classes), file)
        splits.append(ImageSplit(paths, labels, lines if has_keys else ()))
    return RawDataset(classes, *splits)
