"""Sets in a layout of no particular publisher: an .npz, a folder per class, and image lists as of vtab-1k.

Any name works this way, also one that the catalogue does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...data.images import LabelledImages
from ...errors import InputError
from .dataset import ImageSplit, RawDataset
from .unpacked import check_labels, damaged_file, read_text

LISTS = ("train800.txt", "val200.txt", "test.txt")  # and train800val200.txt, which is the first two joined


def read_npz(file: Path) -> RawDataset:
    """Keys train_x (N, H, W[, 3]) uint8, train_y, test_x, test_y, and classes, the names by label."""
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as packed:
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
    except Exception as error:  # numpy and zipfile raise many kinds for damaged files
        raise damaged_file(file, one_line(error)) from None
    labels = [arrays["train_y"], arrays["test_y"]]
    if any(y.ndim != 1 or not np.issubdtype(y.dtype, np.integer) for y in labels):
        raise InputError(f"The labels of {file} are not whole numbers in a row.", "Use int64 of shape (N,).")
    classes = names or [str(c) for c in range(1 + max(int(y.max(initial=0)) for y in labels))]
    train, test = (_array_part(file, arrays[f"{s}_x"], arrays[f"{s}_y"], classes) for s in ("train", "test"))
    return RawDataset(classes, train, test)


def _array_part(file: Path, images: np.ndarray, labels: np.ndarray, classes: list[str]) -> ImageSplit:
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or len(images) != len(labels):
        raise InputError(
            f"The images of {file} are {images.dtype} of shape {images.shape} with {len(labels)} labels.",
            "Use uint8 of shape (N, H, W) or (N, H, W, 3), and N labels.",
        )
    return ImageSplit(images, check_labels(labels, len(classes), file))


def read_folders(folder: Path) -> RawDataset:
    """``train/<class>/<image>`` and ``test/<class>/<image>``; classes are numbered by folder name."""
    train, test = (LabelledImages.from_folder(folder / split) for split in ("train", "test"))
    classes = sorted({*train.classes, *test.classes})
    if missing := [name for name in classes if name not in train.classes]:
        raise InputError(
            f"{folder / 'train'} has no images of {', '.join(missing)}, which {folder / 'test'} has.",
            "Add some, or remove the class from the test images.",
        )
    number = {name: i for i, name in enumerate(classes)}

    def one(images: LabelledImages) -> ImageSplit:
        return ImageSplit(
            images.sources, np.array([number[images.classes[y]] for y in images.labels], np.int64)
        )

    return RawDataset(classes, one(train), one(test))


def has_vtab_lists(folder: Path) -> bool:
    """Whether the folder has the lists of vtab-1k."""
    joined = folder / "train800val200.txt"
    return (folder / "test.txt").is_file() and (joined.is_file() or (folder / "train800.txt").is_file())


def read_lists(folder: Path, count: int = 0) -> RawDataset:
    """Image lists of vtab-1k: lines as "images/train/000000.png 3". ``count`` classes, or as many as occur."""
    if (folder / "train800.txt").is_file() and (folder / "val200.txt").is_file():
        lists = [_read_list(folder, name) for name in LISTS]
    else:
        lists = [_read_list(folder, "train800val200.txt"), _read_list(folder, "test.txt")]
    count = count or 1 + max(max(labels, default=0) for _, labels in lists)
    classes = [str(c) for c in range(count)]
    parts = [ImageSplit(paths, check_labels(labels, count, folder)) for paths, labels in lists]
    return RawDataset(classes, parts[0], parts[-1], parts[1] if len(parts) == 3 else None)


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


def read_lines(file: Path) -> list[str]:
    """The lines of a text file that are neither empty nor a remark."""
    lines = (line.strip() for line in read_text(file).splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def require_files(paths: Sequence[Path], list_of: Path) -> None:
    """Images that a list names have to be there: a half-copied set is no benchmark."""
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise InputError(
            f"{len(missing)} of the {len(paths)} images in {list_of} are missing, the first: {missing[0]}.",
            "Unpack the published archive again, completely.",
        )


def one_line(error: Exception) -> str:
    """An error of a library as part of one line."""
    return " ".join(str(error).split())[:100].rstrip(".") or type(error).__name__
