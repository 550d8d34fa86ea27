"""Diabetic Retinopathy: the severity of the disease, from none (0) to proliferative (4), in photos of the retina.

VTAB uses the photos with the preprocessing of the winner of the Kaggle competition (fundus.py), which is applied when a
photo is accessed.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np

from ...data.pixels import decode
from .dataset import ImageSplit, RawDataset
from .fundus import preprocess_fundus
from .lazy_sequence import LazySequence
from .unpacked import check_labels, damaged_by, damaged_file, find_path, read_text, require_files

CLASSES = ["none", "mild", "moderate", "severe", "proliferative"]


def read_retinopathy(root: Path) -> RawDataset:
    """Read Kaggle's folders train and test, trainLabels.csv, and the solution published later.

    The images of the public leaderboard are the validation split, those of the private one the test split.
    """
    train = _read_split(root, "train", find_path(root, "trainLabels.csv", "trainLabels.csv.zip"), "")
    solution = find_path(root, "retinopathy_solution.csv")
    val, test = (_read_split(root, "test", solution, usage) for usage in ("Public", "Private"))
    return RawDataset(list(CLASSES), train, test, val)


def _read_split(root: Path, folder: str, table: Path, usage: str) -> ImageSplit:
    """Read the rows of a table: image, level and, in the solution, Usage."""
    with damaged_by(table, csv.Error):
        rows = list(csv.DictReader(io.StringIO(read_text(table), newline="")))
    needed = {"image", "level", "Usage"} if usage else {"image", "level"}
    if not rows or not needed <= set(rows[0]):
        raise damaged_file(table, f"it lacks the columns {', '.join(sorted(needed))}")
    rows = [row for row in rows if not usage or row["Usage"] == usage]
    if not all(row["image"] and (row["level"] or "").strip().isdecimal() for row in rows):
        raise damaged_file(table, "a row has no image or no level")
    labels = check_labels((int(row["level"]) for row in rows), len(CLASSES), table)
    names = [row["image"] for row in rows]  # the keys of TFDS
    photos = find_path(root, folder, f"{folder}.zip")
    paths = [photos / f"{name}.jpeg" for name in names]
    require_files(paths, table)
    return ImageSplit(
        LazySequence(len(paths), lambda i: preprocess_fundus(np.asarray(decode(paths[i])))), labels, names
    )
