"""The words the data sets are described in: a part, a set as published, a file, an entry of the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .lazy_sequence import LazySequence


@dataclass(frozen=True)
class ImageSplit:
    """Images of one split: sources with labels 0 … C−1. Nothing is decoded before a source is asked for."""

    sources: (
        Sequence[Any] | np.ndarray
    )  # paths, or a uint8 array (N, H, W[, 3]), or anything with [i] and len()
    labels: np.ndarray  # int64 (N,)
    keys: Sequence[str] = ()  # a name for each image inside its set, where published split lists need one

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, indices: Sequence[int] | np.ndarray) -> ImageSplit:
        """The images at ``indices``, in that order; still nothing is decoded."""
        chosen = np.asarray(indices, dtype=np.int64)
        keys = [self.keys[i] for i in chosen] if len(self.keys) else ()
        if isinstance(self.sources, np.ndarray):
            return ImageSplit(self.sources[chosen], self.labels[chosen], keys)
        return ImageSplit(
            LazySequence(len(chosen), lambda i: self.sources[chosen[i]]), self.labels[chosen], keys
        )

    def join(self, other: ImageSplit) -> ImageSplit:
        """These images and then the other ones."""
        first, count = self.sources, len(self)
        keys = [*self.keys, *other.keys] if len(self.keys) and len(other.keys) else ()

        def one(index: int) -> Any:
            return first[index] if index < count else other.sources[index - count]

        return ImageSplit(
            LazySequence(count + len(other), one), np.concatenate([self.labels, other.labels]), keys
        )


@dataclass(frozen=True)
class RawDataset:
    """A set as its publisher gives it."""

    classes: list[str]
    train: ImageSplit
    test: ImageSplit
    val: ImageSplit | None = None


@dataclass(frozen=True)
class PublishedFile:
    """A published file: where it is, and how to know that it is whole. An empty checksum is not known."""

    name: str
    url: str = ""
    sha256: str = ""
    md5: str = ""
    bytes: int = 0


@dataclass(frozen=True)
class DatasetEntry:
    """A set of the catalogue."""

    name: str  # "clevr_count"
    title: str  # the paper's name for it, "Clevr-count"
    classes: int
    home: str  # the web page where it is published
    licence: str
    files: tuple[PublishedFile, ...]  # the published archives
    read: Callable[[Path], RawDataset]  # from the folder in which those archives are unpacked (or lie)
    group: str = ""  # "natural", "specialized", "structured" for VTAB, else ""
    free: bool = False  # licence and publisher allow a plain download
    aliases: tuple[str, ...] = ()  # other names of it: a vtab-1k folder, a Hugging Face set
    note: str = ""
    instead: tuple[PublishedFile, ...] = ()  # a second form in which the whole set is published
    markers: tuple[str, ...] = ()  # patterns of which a folder unpacked by hand has at least one


@dataclass(frozen=True)
class Dataset:
    """A set ready for a benchmark: what to learn from, what to be tried on, and where both came from."""

    name: str
    title: str
    classes: list[str]
    train: ImageSplit
    test: ImageSplit
    source: str  # what was read
    notes: list[str] = field(default_factory=list)  # what a reader of the results has to know
