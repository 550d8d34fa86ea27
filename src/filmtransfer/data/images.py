"""LabelledImages: where the images of a task come from, and which of them could be read.

Three doors: a folder with one subfolder per class, a CSV of paths and labels, or images and labels
already in memory. Nothing is decoded until ``load``.
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
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from ..errors import InputError
from .pixels import SUFFIXES, PixelSpec, decode, side_of, to_square

PATH_COLUMNS = ("path", "file", "filename", "image")
LABEL_COLUMNS = ("label", "class", "category")


@dataclass(frozen=True)
class SkippedImage:
    """An image that could not be used, and why."""

    name: str
    reason: str


@dataclass
class LabelledImages:
    """Image sources with a class each; ``classes`` are the names, ``labels`` index them."""

    sources: list[Any]
    labels: list[int]
    classes: list[Any]
    warnings: list[str] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)  # what to call each image, if its owner knows better

    def __len__(self) -> int:
        return len(self.sources)

    def names(self) -> list[str]:
        """What to call each image in a message."""
        if self.titles:
            return self.titles
        return [str(s) if isinstance(s, (str, Path)) else f"image {i}" for i, s in enumerate(self.sources)]

    @classmethod
    def from_folder(cls, folder: str | Path) -> LabelledImages:
        """One subfolder per class; images anywhere below it belong to it."""
        root = Path(folder)
        if not root.is_dir():
            raise InputError(
                f"There is no folder {root}.", "Give a folder with one subfolder of photos per class."
            )
        sources: list[Any] = []
        names: list[str] = []
        empty: list[str] = []
        for entry in _entries(root):
            if entry.name.startswith(".") or not entry.is_dir():
                continue
            files = find_images(entry)
            if not files:
                empty.append(entry.name)
            sources += files
            names += [entry.name] * len(files)
        loose = [p for p in _entries(root) if p.suffix.lower() in SUFFIXES and p.is_file()]
        if not sources:
            raise InputError(
                f"No images in subfolders of {root}.",
                "Make one subfolder per class and put its photos there, as in photos/cat/1.jpg.",
            )
        found = cls._named(sources, names)
        if loose:
            found.warnings.append(f"{len(loose)} images directly in {root} have no class: left out.")
        if empty:
            found.warnings.append(f"Folders without images left out: {', '.join(empty)}.")
        return found

    @classmethod
    def from_csv(cls, file: str | Path) -> LabelledImages:
        """A CSV with a header; a path column (relative to the CSV) and a label column."""
        path = Path(file)
        try:
            with path.open(encoding="utf-8-sig", newline="") as lines:
                rows = list(csv.DictReader(StringIO(lines.read(), newline="")))
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise InputError(f"Cannot read {path}: {error}.", "It has to be a CSV in UTF-8.") from None
        columns = {name.strip().lower(): name for name in (rows[0] if rows else {}) if name}
        where = next((columns[n] for n in PATH_COLUMNS if n in columns), None)
        what = next((columns[n] for n in LABEL_COLUMNS if n in columns), None)
        if where is None or what is None:
            raise InputError(
                f"{path} needs a header with a path and a label column.",
                f"Path: one of {', '.join(PATH_COLUMNS)}. Label: one of {', '.join(LABEL_COLUMNS)}.",
            )
        full = [row for row in rows if row[where] and row[what]]
        if not full:
            raise InputError(f"{path} lists no images.", "Give one line per image: path,label.")
        found = cls._named(
            [path.parent / row[where].strip() for row in full], [row[what].strip() for row in full]
        )
        if len(full) < len(rows):
            found.warnings.append(f"{len(rows) - len(full)} lines of {path} lack a path or a label.")
        return found

    @classmethod
    def from_any(cls, place: str | Path) -> LabelledImages:
        """A folder, or a CSV by its ending."""
        return cls.from_csv(place) if str(place).lower().endswith(".csv") else cls.from_folder(place)

    @classmethod
    def from_memory(cls, images: Sequence[Any], labels: Sequence[Any]) -> LabelledImages:
        """Images (paths, files' bytes, PIL images, uint8 arrays) and labels of any one sortable kind."""
        if len(images) != len(labels):
            raise InputError(f"{len(images)} images but {len(labels)} labels.", "One label per image.")
        if len(images) == 0:
            raise InputError("No images were given.", "Give a few images of each class.")
        return cls._named(
            list(images), [label.item() if hasattr(label, "item") else label for label in labels]
        )

    @classmethod
    def _named(cls, sources: list[Any], names: Sequence[Any]) -> LabelledImages:
        try:
            classes = sorted(set(names))
        except TypeError:
            raise InputError(
                "Labels of different kinds cannot be mixed.", "Use all text or all numbers."
            ) from None
        if any(name != name for name in classes):  # only NaN differs from itself
            raise InputError("A label is not a number (NaN).", "Give every image a label.")
        index = {name: i for i, name in enumerate(classes)}
        return cls(sources, [index[name] for name in names], classes, _alike(classes))


@dataclass
class LoadedImages:
    """Decoded images as uint8 (N, 3, S, S), their labels, and what was left out."""

    pixels: Tensor
    labels: Tensor
    classes: list[Any]
    skipped: list[SkippedImage]
    warnings: list[str]
    names: list[str]  # what to call each image in a message
    sources: list[Any]  # where they came from

    def counts(self) -> list[int]:
        return torch.bincount(self.labels, minlength=len(self.classes)).tolist()


def load(images: LabelledImages, spec: PixelSpec, *, strict: bool = False) -> LoadedImages:
    """Decode everything once. Unreadable images are skipped and listed, or refused if strict."""
    squares, skipped = read_squares(images.sources, spec, images.names())
    if strict and skipped:
        raise InputError(
            f"{len(skipped)} images cannot be used, the first: {skipped[0].name}: {skipped[0].reason}.",
            "Remove them, or run without strict to leave them out.",
        )
    kept = [i for i, square in enumerate(squares) if square is not None]
    counts = Counter(images.labels[i] for i in kept)
    lost = [str(name) for c, name in enumerate(images.classes) if counts[c] == 0]
    if lost:
        raise InputError(
            f"None of the images of {', '.join(lost)} can be read"
            + (f" (the first: {skipped[0].name}: {skipped[0].reason})." if skipped else "."),
            "Replace them, or remove the class.",
        )
    if len(images.classes) < 2:
        raise InputError(
            f"There is only one class, {images.classes[0]}.",
            "A classifier needs at least two: add a folder of other photos.",
        )
    pixels = torch.stack([square for square in squares if square is not None])
    labels = torch.tensor([images.labels[i] for i in kept])
    notes = list(images.warnings)
    everyone = images.names()
    names = [everyone[i] for i in kept]
    notes += _twins(pixels, labels, names, images.classes)
    return LoadedImages(
        pixels, labels, images.classes, skipped, notes, names, [images.sources[i] for i in kept]
    )


def read_squares(
    sources: Sequence[Any], spec: PixelSpec, names: Sequence[str]
) -> tuple[list[Tensor | None], list[SkippedImage]]:
    """Squares in order (None where unreadable), and the reasons."""

    def one(index: int) -> tuple[Tensor | None, str]:
        try:
            return to_square(decode(sources[index], near=spec.size), spec), ""
        except InputError as error:
            return None, error.message

    with _without_pillows_remarks(), ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        results = list(pool.map(one, range(len(sources))))
    skipped = [SkippedImage(names[i], why) for i, (square, why) in enumerate(results) if square is None]
    return [square for square, _ in results], skipped


def largest_side(sources: Sequence[Any]) -> int:
    """The largest image side among the sources, from their headers."""
    with _without_pillows_remarks():
        return max((side_of(source) for source in sources), default=0)


@contextmanager
def _without_pillows_remarks() -> Iterator[None]:
    """Its warnings about sizes and metadata; set outside the threads, which share the filters."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="PIL")
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        yield


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder} cannot be read ({error.strerror}).") from None


def find_images(place: Path) -> list[Path]:
    """Image files below a folder, sorted; links are followed, but never upwards and never twice."""
    found: list[Path] = []
    seen: set[Path] = set()
    above = set(place.resolve().parents)
    for folder, below, files in os.walk(place, followlinks=True):
        real = Path(folder).resolve()
        if real in seen or real in above:
            below.clear()
            continue
        seen.add(real)
        below[:] = sorted(name for name in below if not name.startswith("."))
        found += [
            Path(folder, name)
            for name in files
            if not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES
        ]
    return sorted(found)


def list_images(places: Sequence[Path]) -> list[Path]:
    """The images that are named, and those in the folders that are named."""
    found = [path for place in places for path in (find_images(place) if place.is_dir() else [place])]
    if not found:
        raise InputError("No images there.", "Name image files, or folders that hold some.")
    return found


def _alike(classes: Sequence[Any]) -> list[str]:
    """A warning for classes whose names differ only in case or in how accents are written."""
    groups: dict[str, list[str]] = {}
    for name in map(str, classes):
        groups.setdefault(unicodedata.normalize("NFC", name).casefold(), []).append(name)
    return [
        f"Classes {' and '.join(same)} differ only in spelling; they are taken as different classes."
        for same in groups.values()
        if len(same) > 1
    ]


def _twins(pixels: Tensor, labels: Tensor, names: list[str], classes: list[Any]) -> list[str]:
    """A warning for each image that stands under two classes."""
    first: dict[bytes, int] = {}
    notes = []
    for i, square in enumerate(pixels):
        key = hashlib.sha256(square.numpy().tobytes()).digest()
        j = first.setdefault(key, i)
        if labels[i] != labels[j]:
            notes.append(
                f"The same image stands under two classes: {names[j]} ({classes[int(labels[j])]}) "
                f"and {names[i]} ({classes[int(labels[i])]})."
            )
    return notes
