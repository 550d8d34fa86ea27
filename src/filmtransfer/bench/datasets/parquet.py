"""Datasets as the Hugging Face hub stores them: parquet files with a column of encoded images."""

from __future__ import annotations

import bisect
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from ...data.formats import identify
from ...errors import InputError, MissingExtraError
from .dataset import ImageSplit, RawDataset
from .unpacked import check_labels, damaged_by

SPLITS = {"train": "train", "test": "test", "validation": "val", "valid": "val", "val": "val"}
LABELS = ("label", "fine_label", "labels", "label_id")  # in this order, if a dataset has several
DEPTH = 3
CACHED_GROUPS = 8  # row groups in memory; one has some hundred images


def find_parquet(folder: Path) -> dict[str, list[Path]]:
    """Return the parquet files by split, which is the prefix of their name or of their folder's name."""
    by_split: dict[str, list[Path]] = {}
    for file in _parquet_files(folder):
        for name in (file.stem, file.parent.name):
            split = SPLITS.get(name.split("-")[0].lower())
            if split:
                by_split.setdefault(split, []).append(file)
                break
    return by_split


def _parquet_files(folder: Path) -> list[Path]:
    """Return the parquet files down to <config>/<split>/, where the hub stores them, and no deeper."""
    paths: list[Path] = []
    for path, below, files in os.walk(folder):
        if len(Path(path).relative_to(folder).parts) >= DEPTH:
            below.clear()
        paths += [Path(path, name) for name in files if name.endswith(".parquet")]
    return sorted(paths)


def read_parquet(folder: Path) -> RawDataset:
    """Read the splits below ``folder``; the class names are in the metadata of the files."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("Reading parquet files", "bench") from None
    files = find_parquet(folder)
    for split in ("train", "test"):
        if split not in files:
            raise InputError(
                f"No {split} split among the parquet files of {folder}.",
                f"Also copy the files whose names begin with {split}-.",
            )
    image, label, classes = _columns(files["train"][0])

    def read_split(split: str) -> ImageSplit:
        labels: list[np.ndarray] = []
        for file in files[split]:
            with damaged_by(file, OSError, ValueError, KeyError, pyarrow.ArrowException):
                column = pyarrow.parquet.read_table(file, columns=[label]).column(label)
                labels.append(np.asarray(column.to_numpy(), dtype=np.int64))
        checked = check_labels(np.concatenate(labels), len(classes), files[split][0])
        return ImageSplit(ParquetImages(files[split], image), checked)

    return RawDataset(
        classes, read_split("train"), read_split("test"), read_split("val") if "val" in files else None
    )


def _columns(file: Path) -> tuple[str, str, list[str]]:
    """Return the image column, the label column, and the class names."""
    import pyarrow
    import pyarrow.parquet

    with damaged_by(file, OSError, ValueError, pyarrow.ArrowException):
        schema = pyarrow.parquet.read_schema(file)
        metadata = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    features = metadata.get("info", {}).get("features", {})
    images = [
        f.name for f in schema if pyarrow.types.is_struct(f.type) and f.type.get_field_index("bytes") >= 0
    ]
    named = {
        n: f["names"] for n, f in features.items() if isinstance(f, dict) and f.get("_type") == "ClassLabel"
    }
    label = next((name for name in LABELS if name in named), next(iter(named), None))
    if not images or label is None:
        raise InputError(
            f"{file} has no image column with bytes, or no class label column with names.",
            "It has to be an image classification dataset of the Hugging Face hub.",
        )
    return images[0], label, [str(name) for name in named[label]]


class ParquetImages(Sequence[Image.Image]):
    """The images of parquet files, opened on access; a few row groups are kept in memory."""

    def __init__(self, files: Sequence[Path], column: str) -> None:
        import pyarrow
        import pyarrow.parquet

        self.column = column
        self._groups: list[tuple[Path, int]] = []
        self._starts: list[int] = []
        self._count = 0
        for file in files:
            with damaged_by(file, OSError, pyarrow.ArrowException):
                metadata = pyarrow.parquet.read_metadata(file)
            for group in range(metadata.num_row_groups):
                self._groups.append((file, group))
                self._starts.append(self._count)
                self._count += metadata.row_group(group).num_rows
        self._cached: OrderedDict[int, list[bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Image.Image:  # type: ignore[override]  # slices are not used
        if not -self._count <= index < self._count:
            raise IndexError(index)
        index %= self._count
        group = bisect.bisect_right(self._starts, index) - 1
        content = self._rows(group)[index - self._starts[group]]
        try:
            return identify(BytesIO(content))
        except UnidentifiedImageError:
            raise InputError("this is not an image") from None

    def _rows(self, group: int) -> list[bytes]:
        import pyarrow
        import pyarrow.parquet

        with self._lock:
            if group not in self._cached:
                file, number = self._groups[group]
                with damaged_by(file, OSError, pyarrow.ArrowException):
                    table = pyarrow.parquet.ParquetFile(file).read_row_group(number, columns=[self.column])
                self._cached[group] = [row["bytes"] or b"" for row in table.column(0).to_pylist()]
                if len(self._cached) > CACHED_GROUPS:
                    self._cached.popitem(last=False)
            self._cached.move_to_end(group)
            return self._cached[group]
