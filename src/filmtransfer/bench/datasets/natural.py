"""The natural datasets of VTAB, and CIFAR-10, read from the published files.

``ImageSplit.keys`` are the keys under which TensorFlow Datasets stores the images, because the 1000 training images of
VTAB are slices of its order (tfds_order.py); each reader documents the source of its keys. Sizes and checksums of the
files are those that TensorFlow Datasets (url_checksums) and torchvision publish.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from ...data.images import find_images
from ...errors import InputError
from ...seeding import make_generator, permutation
from .cifar import read_cifar
from .dataset import DatasetEntry, ImageSplit, PublishedFile, RawDataset
from .flowers import FLOWERS
from .matlab import read_matlab
from .unpacked import (
    check_labels,
    damaged_file,
    find_path,
    read_lines,
    read_text,
    require_files,
    search_patterns,
)

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
    rows = [read_lines(file) for file in lists]
    classes = sorted({line.rpartition("/")[0] for lines in rows for line in lines})
    class_index = {name: i for i, name in enumerate(classes)}
    splits = []
    for file, lines in zip(lists, rows, strict=True):
        paths = [home / line.lstrip("/") for line in lines]
        require_files(paths, file)
        labels = check_labels([class_index[line.rpartition("/")[0]] for line in lines], len(classes), file)
        splits.append(ImageSplit(paths, labels, lines if len(lists) == 3 else ()))
    return RawDataset(classes, *splits)


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
    home = lists[0].parent.parent / "images"
    rows = [read_text(file).split() for file in lists]
    classes = sorted({line.partition("/")[0] for lines in rows for line in lines})
    class_index = {name: i for i, name in enumerate(classes)}
    splits = []
    for file, lines in zip(lists, rows, strict=True):
        paths = [home / line for line in lines]
        require_files(paths, file)
        splits.append(
            ImageSplit(
                paths,
                check_labels([class_index[x.partition("/")[0]] for x in lines], len(classes), file),
                lines,
            )
        )
    return RawDataset(classes, *splits)


CIFAR_HOME = "https://www.cs.toronto.edu/~kriz/cifar.html"
FLOWERS_HOME = "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/"
PETS_HOME = "https://www.robots.ox.ac.uk/~vgg/data/pets/"
SUN_HOME = "https://vision.princeton.edu/projects/2010/SUN/"
SVHN_HOME = "http://ufldl.stanford.edu/housenumbers/"
CALTECH_HOME = "https://data.caltech.edu/records/mzrjq-6wc02"
DTD_HOME = "https://www.robots.ox.ac.uk/~vgg/data/dtd/"


def _cifar_file(
    classes: int, form: str, size: int, *, sha256: str = "", md5: str = ""
) -> tuple[PublishedFile, ...]:
    name = f"cifar-{classes}-{form}.tar.gz"
    return (PublishedFile(name, f"{CIFAR_HOME.rpartition('/')[0]}/{name}", sha256, md5, size),)


CIFAR10 = DatasetEntry(
    name="cifar10",
    title="CIFAR10",
    classes=10,
    home=CIFAR_HOME,
    licence="none stated; cite Krizhevsky (2009)",
    read=partial(read_cifar, classes=10),
    free=True,
    markers=search_patterns("cifar-10-batches-py", "cifar-10-batches-bin"),
    files=_cifar_file(10, "python", 170498071, md5="c58f30108f718f92721af3b95e74349a"),
    instead=_cifar_file(
        10, "binary", 170052171, sha256="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
    ),
)

NATURAL = (
    DatasetEntry(
        name="caltech101",
        title="Caltech101",
        classes=102,
        home=CALTECH_HOME,
        licence="CC BY 4.0",
        files=(
            PublishedFile(
                "caltech-101.zip",
                f"{CALTECH_HOME}/files/caltech-101.zip?download=1",
                sha256="331234750fc7f77520e50d9565e8b6907b03565e30320da1401130db08c61f91",
                md5="3138e1922a9193bfa496528edbbc45d0",
                bytes=137414764,
            ),
        ),
        instead=(
            PublishedFile(
                "101_ObjectCategories.tar.gz",
                sha256="af6ece2f339791ca20f855943d8b55dd60892c0a25105fcd631ee3d6430f9926",
                md5="b224c7392d521a49829488ab0f1120d9",
                bytes=131740031,
            ),
        ),
        read=read_caltech101,
        group="natural",
        free=True,
        note="Its training images, 30 of each class, are drawn at random: Caltech publishes no split.",
        markers=search_patterns("101_ObjectCategories"),
    ),
    DatasetEntry(
        name="cifar100",
        title="CIFAR100",
        classes=100,
        home=CIFAR_HOME,
        licence="none stated; cite Krizhevsky (2009)",
        read=partial(read_cifar, classes=100),
        group="natural",
        free=True,
        aliases=("cifar", "cifar_100", "cifar-100"),
        markers=search_patterns("cifar-100-python", "cifar-100-binary"),
        files=_cifar_file(100, "python", 169001437, md5="eb9058c3a382ffc7106e4002c42a8d85"),
        instead=_cifar_file(
            100,
            "binary",
            168513733,
            sha256="58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
        ),
    ),
    DatasetEntry(
        name="flowers102",
        title="Flowers102",
        classes=102,
        home=FLOWERS_HOME,
        licence="none stated; images from the web, for research",
        files=(
            PublishedFile(
                "102flowers.tgz",
                f"{FLOWERS_HOME}102flowers.tgz",
                sha256="2d01ecc807db462958cfe3d92f57a8c252b4abd240eb955770201e45f783b246",
                md5="52808999861908f626f3c1f4e79d11fa",
                bytes=344862509,
            ),
            PublishedFile(
                "imagelabels.mat",
                f"{FLOWERS_HOME}imagelabels.mat",
                sha256="4903e94206bac23bf772aadf06451916df56b58fc483a62db32a97b82656651d",
                md5="e0620be6f572b9609742df49c70aed4d",
                bytes=502,
            ),
            PublishedFile(
                "setid.mat",
                f"{FLOWERS_HOME}setid.mat",
                sha256="46b8678f91fd95d3c8f4feab80d271a6c834a1dd896fe29fd3e6ad9ce5c8dccd",
                md5="a5357ecc9cb78c4bef273ce3793fc85c",
                bytes=14989,
            ),
        ),
        read=read_flowers102,
        group="natural",
        free=True,
        aliases=("oxford_flowers102", "flowers", "flowers-102"),
        markers=search_patterns("jpg"),
    ),
    DatasetEntry(
        name="oxford_pets",
        title="Pets",
        classes=37,
        home=PETS_HOME,
        licence="CC BY-SA 4.0",
        files=(
            PublishedFile(
                "images.tar.gz",
                f"{PETS_HOME}data/images.tar.gz",
                sha256="67195c5e1c01f1ab5f9b6a5d22b8c27a580d896ece458917e61d459337fa318d",
                md5="5c4f3ee8e5d25df40f4fd59a7f44e54c",
                bytes=791918971,
            ),
            PublishedFile(
                "annotations.tar.gz",
                f"{PETS_HOME}data/annotations.tar.gz",
                sha256="52425fb6de5c424942b7626b428656fcbd798db970a937df61750c0f1d358e91",
                md5="95a8c909bbe2e81eed6a22bccdf3f68f",
                bytes=19173078,
            ),
        ),
        read=read_oxford_pets,
        group="natural",
        free=True,
        aliases=("oxford_iiit_pet", "pets", "oxford-iiit-pet"),
        markers=search_patterns("annotations/trainval.txt"),
    ),
    DatasetEntry(
        name="sun397",
        title="Sun397",
        classes=397,
        home=SUN_HOME,
        licence="none stated; images from the web, for research",
        files=(
            PublishedFile(
                "SUN397.tar.gz",
                f"{SUN_HOME}SUN397.tar.gz",
                sha256="f404130965a7ad77bed5ececc71e720ab50f3cc1e1bb257257610d38f3b928ec",
                bytes=39077296924,
            ),
            PublishedFile(
                "Partitions.zip",
                f"{SUN_HOME}download/Partitions.zip",
                sha256="e3311ea5f812d4cc6faef194688343d1111f6cd6f70f2c62f393c2b8d6ba1ec9",
                bytes=18293705,
            ),
        ),
        read=read_sun397,
        group="natural",
        note="VTAB's split of SUN397 is in the lists sun397_tfds_tr.txt, _va.txt and _te.txt of TensorFlow "
        "Datasets; without them next to the images, the first partition of SUN is used.",
        markers=search_patterns("SUN397"),
    ),
    DatasetEntry(
        name="svhn",
        title="SVHN",
        classes=10,
        home=SVHN_HOME,
        licence="non-commercial use only",
        files=(
            PublishedFile(
                "train_32x32.mat",
                f"{SVHN_HOME}train_32x32.mat",
                sha256="435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
                bytes=182040794,
            ),
            PublishedFile(
                "test_32x32.mat",
                f"{SVHN_HOME}test_32x32.mat",
                sha256="cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
                bytes=64275384,
            ),
        ),
        read=read_svhn,
        group="natural",
        free=True,
        aliases=("svhn_cropped",),
    ),
    DatasetEntry(
        name="dtd",
        title="DTD",
        classes=47,
        home=DTD_HOME,
        licence="for research",
        files=(
            PublishedFile(
                "dtd-r1.0.1.tar.gz",
                f"{DTD_HOME}download/dtd-r1.0.1.tar.gz",
                sha256="e42855a52a4950a3b59612834602aa253914755c95b0cff9ead6d07395f8e205",
                bytes=625239812,
            ),
        ),
        read=read_dtd,
        group="natural",
        free=True,
        markers=search_patterns("labels/train1.txt"),
    ),
)
