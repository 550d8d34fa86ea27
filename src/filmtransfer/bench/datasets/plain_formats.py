"""Datasets in a generic format: an .npz file, a folder per class, or image lists as in vtab-1k.

These formats work for any name, including names that are not in the catalogue.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...data.images import LabelledImages
from ...errors import InputError
from .dataset import ImageSplit, RawDataset
from .unpacked import check_labels, damaged_file, one_line, read_lines, require_files

LISTS = ("train800.txt", "val200.txt", "test.txt")  # and train800val200.txt, which is the first two joined


def read_npz(file: Path) -> RawDataset:
    """Read the arrays train_x (N, H, W[, 3]) uint8, train_y, test_x, test_y, and classes, the names by label."""
    try:
        with file.open("rb") as content, np.load(content, allow_pickle=False) as packed:
            needed = ("train_x", "train_y", "test_x", "test_y")
            missing = [key for key in needed if key not in packed.files]
            if missing:
                raise InputError(
                    f"{file} lacks {', '.join(missing)}.",
                    "It needs train_x, train_y, test_x, test_y and, for names, classes.",
                )
            arrays = {key: packed[key] for key in needed}
            names = [str(name) for name in packed["classes"]] if "classes" in packed.files else []
    except InputError:
        raise
    except Exception as error:  # numpy and zipfile raise many kinds of errors for damaged files
        raise damaged_file(file, one_line(error)) from None
    labels = [arrays["train_y"], arrays["test_y"]]
    if any(y.ndim != 1 or not np.issubdtype(y.dtype, np.integer) for y in labels):
        raise InputError(f"The labels of {file} are not a vector of integers.", "Use int64 of shape (N,).")
    classes = names or [str(c) for c in range(1 + max(int(y.max(initial=0)) for y in labels))]
    train, test = (_array_split(file, arrays[f"{s}_x"], arrays[f"{s}_y"], classes) for s in ("train", "test"))
    return RawDataset(classes, train, test)


def _array_split(file: Path, images: np.ndarray, labels: np.ndarray, classes: list[str]) -> ImageSplit:
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or len(images) != len(labels):
        raise InputError(
            f"The images of {file} are {images.dtype} of shape {images.shape} with {len(labels)} labels.",
            "Use uint8 of shape (N, H, W) or (N, H, W, 3), and N labels.",
        )
    return ImageSplit(images, check_labels(labels, len(classes), file))


def read_folders(folder: Path) -> RawDataset:
    """Read ``train/<class>/<image>`` and ``test/<class>/<image>``; classes are numbered in the order of their names."""
    train, test = (LabelledImages.from_folder(folder / split) for split in ("train", "test"))
    classes = sorted({str(name) for name in (*train.classes, *test.classes)})
    if missing := [name for name in classes if name not in train.classes]:
        raise InputError(
            f"{folder / 'train'} has no images of {', '.join(missing)}, which {folder / 'test'} has.",
            "Add some, or remove the class from the test images.",
        )
    number = {name: i for i, name in enumerate(classes)}

    def split_of(images: LabelledImages) -> ImageSplit:
        return ImageSplit(
            images.sources, np.array([number[str(images.classes[y])] for y in images.labels], np.int64)
        )

    return RawDataset(classes, split_of(train), split_of(test))


def has_vtab_lists(folder: Path) -> bool:
    """Return whether the folder has the image lists of vtab-1k."""
    joined = folder / "train800val200.txt"
    return (folder / "test.txt").is_file() and (joined.is_file() or (folder / "train800.txt").is_file())


def read_lists(folder: Path, count: int = 0) -> RawDataset:
    """Read image lists of vtab-1k, with lines such as "images/train/000000.png 3".

    There are ``count`` classes, or as many as occur if ``count`` is 0.
    """
    if (folder / "train800.txt").is_file() and (folder / "val200.txt").is_file():
        lists = [_read_list(folder, name) for name in LISTS]
    else:
        lists = [_read_list(folder, "train800val200.txt"), _read_list(folder, "test.txt")]
    count = count or 1 + max(max(labels, default=0) for _, labels in lists)
    classes = [str(c) for c in range(count)]
    splits = [ImageSplit(paths, check_labels(labels, count, folder)) for paths, labels in lists]
    return RawDataset(classes, splits[0], splits[-1], splits[1] if len(splits) == 3 else None)


def _read_list(folder: Path, name: str) -> tuple[list[Path], list[int]]:
    file = folder / name
    paths, labels = [], []
    for number, line in enumerate(read_lines(file), 1):
        path, _, label = line.rpartition(" ")
        if not path or not label.isdecimal():
            raise damaged_file(file, f"line {number} is not a path and a class number")
        paths.append(folder / path.strip())
        labels.append(int(label))
    require_files(paths, file)
    return paths, labels
