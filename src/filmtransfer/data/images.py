"""Labelled images from a folder with one subfolder per class, from a CSV file, or from memory.

Nothing is decoded until ``load``, which lists the images that cannot be read.
"""

from __future__ import annotations

import csv
import hashlib
import os
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

import numpy as np
from PIL import Image

from ..budgets import MAX_LIST_BYTES, MAX_LIST_ROWS
from ..errors import InputError
from ..files import read_at_most
from ..formatting import capitalize, count
from .digest import digest_of
from .inputs import (
    Images,
    Labels,
    as_labels,
    check_files,
    check_numbers,
    image_sources,
    is_held,
    labelled_sources,
)
from .inputs import Label as Label
from .pixels import SUFFIXES, ImageSource, PixelSpec, read_square, reduce, side_of

PATH_COLUMNS = ("path", "file", "filename", "image")
LABEL_COLUMNS = ("label", "class", "category")
COLUMNS = (PATH_COLUMNS, LABEL_COLUMNS)


@dataclass(frozen=True)
class SkippedImage:
    """An image that could not be used, and the reason."""

    name: str
    reason: str

    def to_dict(self) -> dict[str, str]:
        """Return the image as it appears in JSON documents."""
        return {"image": self.name, "reason": self.reason}


@dataclass
class LabelledImages:
    """Image sources and their classes; ``labels`` are indices into ``classes``, the names."""

    sources: Sequence[ImageSource]
    labels: list[int]
    classes: list[Label]
    warnings: list[str] = field(default_factory=list)
    display_names: list[str] = field(default_factory=list)  # names for messages, instead of the paths
    digests: dict[int, str] = field(default_factory=dict)  # by index, of images whose sources are reduced

    def __len__(self) -> int:
        return len(self.sources)

    def names(self) -> list[str]:
        """Return a name for each image, to be used in messages."""
        if self.display_names:
            return self.display_names
        return [str(s) if isinstance(s, (str, Path)) else f"image {i}" for i, s in enumerate(self.sources)]

    @classmethod
    def from_folder(cls, folder: str | Path) -> LabelledImages:
        """Read a folder with one subfolder per class; all images below a subfolder belong to its class."""
        root = Path(folder)
        if not root.is_dir():
            wrong = f"{root} is not a folder." if root.exists() else f"There is no folder {root}."
            raise InputError(wrong, "Give a folder with one subfolder of photos per class.")
        folders = [path for path in _children(root) if path.is_dir() and not path.name.startswith(".")]
        files = [(folder.name, file) for folder in folders for file in find_images(folder)]
        names, sources = [name for name, _ in files], [file for _, file in files]
        empty = [folder.name for folder in folders if folder.name not in set(names)]
        unlabelled = [p for p in _children(root) if p.suffix.lower() in SUFFIXES and p.is_file()]
        if not sources:
            raise InputError(
                f"No images in subfolders of {root}.",
                f"It contains photos itself: is it one of the classes of {root.absolute().parent}?"
                if unlabelled
                else "Create one subfolder per class and put its photos there, as in photos/cat/1.jpg.",
            )
        images = cls._from_names(sources, names)
        if unlabelled:
            loose = capitalize(count(len(unlabelled), "image"))
            images.warnings.append(f"{loose} directly in {root} without a class: ignored.")
        if empty:
            images.warnings.append(f"Folders without images ignored: {', '.join(empty)}.")
        return images

    @classmethod
    def from_csv(cls, file: str | Path) -> LabelledImages:
        """Read a CSV file with a header, a column of paths (relative to the file) and one of labels."""
        path = Path(file)
        complete, incomplete = _read_rows(path)
        if not complete:
            raise InputError(f"{path} lists no images.", "Give one line per image: path,label.")
        files = [path.parent / name for name, _ in complete]
        check_files(
            files, f"Correct the rows, or remove them; paths are relative to {path.parent.resolve()}."
        )
        images = cls._from_names(files, [label for _, label in complete])
        if incomplete:
            lines = capitalize(count(incomplete, "line"))
            images.warnings.append(f"{lines} of {path} without a path or a label: ignored.")
        return images

    @classmethod
    def from_path(cls, path: str | Path) -> LabelledImages:
        """Read a CSV file if the path ends in .csv, a folder otherwise."""
        return cls.from_csv(path) if str(path).lower().endswith(".csv") else cls.from_folder(path)

    @classmethod
    def from_memory(cls, images: Images, labels: Labels | None = None, *, near: int = 0) -> LabelledImages:
        """Combine images with labels of one sortable type; without labels, the images are pairs (image, label).

        Both are whatever ``inputs`` understands. The images of a data set or a generator, which the caller does not hold
        in memory, are reduced where they are much larger than ``near``, the side that will be needed.
        """
        if labels is None:
            pairs = labelled_sources(images)
        else:
            names = as_labels(labels, images)
            pairs = _paired(image_sources(images, pairs=False, expected=len(names)), names)
        held = is_held(images)
        kept: list[tuple[ImageSource, Label]] = []
        digests: dict[int, str] = {}
        for source, name in pairs:
            small = source if held else reduce(source, near)
            if small is not source:
                digests[len(kept)] = digest_of(source)
            kept.append((small, name))
        if not kept:
            again = "" if held else " A generator can be read once only."
            raise InputError("No images were given.", f"Give a few images of each class.{again}")
        labelled = cls._from_names([source for source, _ in kept], [name for _, name in kept])
        labelled.digests = digests
        return labelled

    @classmethod
    def _from_names(cls, sources: Sequence[ImageSource], names: Sequence[Label]) -> LabelledImages:
        try:
            classes = sorted(set(names))
        except TypeError:
            raise InputError(
                "Labels of different types cannot be mixed.", "Use only text or only numbers."
            ) from None
        if any(name != name for name in classes):  # only NaN differs from itself
            raise InputError("A label is not a number (NaN).", "Give every image a label.")
        index = {name: i for i, name in enumerate(classes)}
        return cls(sources, [index[name] for name in names], classes, _similar_names(classes))


def _read_rows(path: Path) -> tuple[list[tuple[str, str]], int]:
    """Return path and label of each complete row of a CSV file, and how many rows lack one; no other column is kept."""
    if not path.exists():
        raise InputError(f"There is no file {path}.", "Check the path.")
    complete, incomplete = [], 0
    try:
        rows = csv.reader(StringIO(read_at_most(path, MAX_LIST_BYTES).decode("utf-8-sig"), newline=""))
        header = [name.strip().lower() for name in next(rows, [])]
        columns = [next((header.index(n) for n in names if n in header), -1) for names in COLUMNS]
        if -1 in columns:
            raise InputError(
                f"{path} needs a header with a path and a label column.",
                f"Path: one of {', '.join(PATH_COLUMNS)}. Label: one of {', '.join(LABEL_COLUMNS)}.",
            )
        for row in filter(None, rows):
            name, label = (row[i].strip() if i < len(row) else "" for i in columns)
            if name and label:
                complete.append((name, label))
            else:
                incomplete += 1
            if len(complete) > MAX_LIST_ROWS:
                raise InputError(f"{path} lists more than {MAX_LIST_ROWS:,} images.", "List fewer of them.")
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"Cannot read {path}: {error}.", "It has to be a CSV file in UTF-8.") from None
    return complete, incomplete


@dataclass
class LoadedImages:
    """Decoded images, uint8 (N, 3, S, S), their labels, int64 (N), and the images that were skipped."""

    pixels: np.ndarray
    labels: np.ndarray
    classes: list[Label]
    skipped: list[SkippedImage]
    warnings: list[str]
    names: list[str]  # of each image, for messages
    sources: list[ImageSource]
    digests: dict[int, str] = field(default_factory=dict)  # by index, of images whose sources are reduced

    def counts(self) -> list[int]:
        """Return the number of images of each class."""
        return [int(count) for count in np.bincount(self.labels, minlength=len(self.classes))]


def load(images: LabelledImages, spec: PixelSpec, *, strict: bool = False) -> LoadedImages:
    """Decode all images once; unreadable ones are skipped and listed, or an error if ``strict``."""
    squares, skipped = read_squares(images.sources, spec, images.names())
    if strict and skipped:
        raise InputError(
            f"{capitalize(count(len(skipped), 'image'))} cannot be used, the first: {skipped[0].name}: {skipped[0].reason}.",
            "Remove them, or run without strict to skip them.",
        )
    kept = [i for i, square in enumerate(squares) if square is not None]
    counts = Counter(images.labels[i] for i in kept)
    unreadable = [str(name) for c, name in enumerate(images.classes) if counts[c] == 0]
    if unreadable:
        first = f" (the first: {skipped[0].name}: {skipped[0].reason})" if skipped else ""
        raise _unreadable(unreadable, first)
    _check_classes(images)
    pixels = np.stack([square for square in squares if square is not None])
    labels = np.array([images.labels[i] for i in kept], np.int64)
    all_names = images.names()
    names = [all_names[i] for i in kept]
    warned = [*images.warnings, *_conflicting_labels(pixels, labels, names, images.classes)]
    sources = [images.sources[i] for i in kept]
    digests = {new: images.digests[i] for new, i in enumerate(kept) if i in images.digests}
    return LoadedImages(pixels, labels, images.classes, skipped, warned, names, sources, digests)


def check_headers(images: LabelledImages) -> None:
    """Raise the error that ``load`` would end in, as far as the headers of the files show it: decode nothing."""
    _check_classes(images)
    readable: set[int] = set()
    with _without_pillow_warnings():
        for source, label in zip(images.sources, images.labels, strict=True):
            if label not in readable and side_of(source):  # one image of each class is enough
                readable.add(label)
    if unreadable := [str(name) for c, name in enumerate(images.classes) if c not in readable]:
        raise _unreadable(unreadable)


def _check_classes(images: LabelledImages) -> None:
    if len(images.classes) < 2:
        raise InputError(
            f"There is only one class, {images.classes[0]}.",
            "A classifier needs at least two: add photos of something else.",
        )


def _unreadable(classes: Sequence[str], first: str = "") -> InputError:
    return InputError(
        f"None of the images of {', '.join(classes)} can be read{first}.",
        "Replace them, or remove the class.",
    )


def read_squares(
    sources: Sequence[ImageSource], spec: PixelSpec, names: Sequence[str]
) -> tuple[list[np.ndarray | None], list[SkippedImage]]:
    """Return the squares of pixels in order, None where unreadable, and the skipped images."""

    def read(index: int) -> tuple[np.ndarray | None, str]:
        try:
            return read_square(sources[index], spec), ""
        except InputError as error:
            return None, error.message

    with _without_pillow_warnings(), ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        results = list(pool.map(read, range(len(sources))))
    skipped = [SkippedImage(names[i], reason) for i, (square, reason) in enumerate(results) if square is None]
    return [square for square, _ in results], skipped


def largest_side(sources: Sequence[ImageSource]) -> int:
    """Return the largest image side among the sources, read from the file headers."""
    with _without_pillow_warnings():
        return max((side_of(source) for source in sources), default=0)


def _paired(sources: Iterator[ImageSource], names: Sequence[Label]) -> Iterator[tuple[ImageSource, Label]]:
    """Yield images with their labels; raise an error if there are more of one than of the other."""
    read = 0
    for read, source in enumerate(sources, 1):
        if read <= len(names):
            yield source, names[read - 1]
    check_numbers(read, len(names))


@contextmanager
def _without_pillow_warnings() -> Iterator[None]:
    """Silence Pillow's warnings about sizes and metadata; used outside the threads, which share the filters."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="PIL")
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        yield


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder} cannot be read ({error.strerror}).") from None


def find_images(root: Path) -> list[Path]:
    """Return the image files below a folder, sorted; links are followed, except upwards or a second time."""
    images: list[Path] = []
    visited: set[Path] = set()
    parents = set(root.resolve().parents)
    for folder, subfolders, files in os.walk(root, followlinks=True):
        resolved = Path(folder).resolve()
        if resolved in visited or resolved in parents:
            subfolders.clear()
            continue
        visited.add(resolved)
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        images += [
            Path(folder, name)
            for name in files
            if not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES
        ]
    return sorted(images)


def list_images(paths: Sequence[Path]) -> list[Path]:
    """Return the given files, which must exist, and the images below the given folders."""
    check_files([path for path in paths if not path.is_dir()])
    images = [image for path in paths for image in (find_images(path) if path.is_dir() else [path])]
    if not images:
        raise InputError("There are no images.", "Name image files, or folders that contain some.")
    return images


def spelling_key(name: str) -> str:
    """Return what names have in common that differ only in case, in the encoding of accents or in spaces.

    It is the Unicode standard's canonical caseless matching, with single spaces.
    """
    folded = unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())
    return " ".join(folded.split())


def _similar_names(classes: Sequence[Label]) -> list[str]:
    """Return a warning for classes whose names differ only in spelling."""
    groups: dict[str, list[str]] = {}
    for name in map(str, classes):
        groups.setdefault(spelling_key(name), []).append(name)
    return [
        f"Classes {' and '.join(same)} differ only in spelling; they are treated as different classes."
        for same in groups.values()
        if len(same) > 1
    ]


def _conflicting_labels(
    pixels: np.ndarray, labels: np.ndarray, names: list[str], classes: list[Label]
) -> list[str]:
    """Return a warning for each image that has the same pixels as an image of another class."""
    first: dict[bytes, int] = {}
    conflicts = []
    for i, square in enumerate(pixels):
        key = hashlib.sha256(square).digest()
        j = first.setdefault(key, i)
        if labels[i] != labels[j]:
            conflicts.append(
                f"The same image is in two classes: {names[j]} ({classes[int(labels[j])]}) "
                f"and {names[i]} ({classes[int(labels[i])]})."
            )
    return conflicts
