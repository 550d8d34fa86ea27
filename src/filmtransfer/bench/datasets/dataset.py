"""The records of a dataset: a split of images, a published file, a catalogue entry, the dataset itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ...data.pixels import ImageSource
from .lazy_sequence import LazySequence

ImageSources = Sequence[ImageSource] | np.ndarray  # an array is uint8 (N, H, W[, 3])


@dataclass(frozen=True)
class ImageSplit:
    """The images of one split with labels 0 … C−1; an image is decoded only when it is accessed."""

    sources: ImageSources
    labels: np.ndarray  # int64 (N,)
    keys: Sequence[str] = ()  # the name of each image in its dataset, where published split lists need one

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, indices: Sequence[int] | np.ndarray) -> ImageSplit:
        """Return the images at ``indices`` in that order, without decoding them."""
        chosen = np.asarray(indices, dtype=np.int64)
        keys = [self.keys[i] for i in chosen] if len(self.keys) else ()
        if isinstance(self.sources, np.ndarray):
            return ImageSplit(self.sources[chosen], self.labels[chosen], keys)
        return ImageSplit(
            LazySequence(len(chosen), lambda i: self.sources[chosen[i]]), self.labels[chosen], keys
        )

    def join(self, other: ImageSplit) -> ImageSplit:
        """Return these images followed by the other ones."""
        first, count = self.sources, len(self)
        keys = [*self.keys, *other.keys] if len(self.keys) and len(other.keys) else ()

        def source(index: int) -> ImageSource:
            return first[index] if index < count else other.sources[index - count]

        labels = np.concatenate([self.labels, other.labels])
        return ImageSplit(LazySequence(count + len(other), source), labels, keys)


@dataclass(frozen=True)
class RawDataset:
    """A dataset with the splits of its publisher."""

    classes: list[str]
    train: ImageSplit
    test: ImageSplit
    val: ImageSplit | None = None


@dataclass(frozen=True)
class PublishedFile:
    """A published file, where to download it, and its checksums; an empty checksum is unknown."""

    name: str
    url: str = ""
    sha256: str = ""
    md5: str = ""
    bytes: int = 0


@dataclass(frozen=True)
class DatasetEntry:
    """A dataset of the catalogue."""

    name: str  # "clevr_count"
    title: str  # its name in the paper, "Clevr-count"
    classes: int
    home: str  # the web page of the publisher
    licence: str
    files: tuple[PublishedFile, ...]  # the published archives
    read: Callable[[Path], RawDataset]  # from the folder that holds the unpacked archives or plain files
    group: str = ""  # "natural", "specialized" or "structured" for VTAB, else ""
    free: bool = False  # licence and publisher allow a plain download
    aliases: tuple[str, ...] = ()  # other names: of a vtab-1k folder, of a Hugging Face dataset
    note: str = ""
    instead: tuple[PublishedFile, ...] = ()  # a second form in which the complete dataset is published
    markers: tuple[str, ...] = ()  # glob patterns, at least one of which matches in an unpacked folder


@dataclass(frozen=True)
class Dataset:
    """A dataset prepared for a benchmark: training images, test images, and their origin."""

    name: str
    title: str
    classes: list[str]
    train: ImageSplit
    test: ImageSplit
    source: str  # what was read
    notes: list[str] = field(default_factory=list)  # what a reader of the results has to know
