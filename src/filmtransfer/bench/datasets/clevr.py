"""CLEVR as two tasks: the number of objects, and the distance of the nearest one from the camera.

The images of the test split are published without scenes, so VTAB tests on the validation split and takes its
validation images, the last 10%, from the training split.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .dataset import ImageSplit, RawDataset
from .unpacked import check_labels, damaged_by, damaged_file, find_path, require_files

# google-research/task_adaptation, task_adaptation/data/clevr.py: the label of a distance is the index of
# the last threshold below it, compared in float32; scenes have 3 to 10 objects.
FEWEST, MOST = 3, 10
THRESHOLDS = np.array([0.0, 8.0, 8.5, 9.0, 9.5, 10.0], dtype=np.float32)
COUNTS = [f"{n} objects" for n in range(FEWEST, MOST + 1)]
DISTANCES = ["≤ 8", "8–8.5", "8.5–9", "9–9.5", "9.5–10", "> 10"]

Scene = tuple[str, list[float]]  # the image's file name; each object's distance from the camera


def count_label(distances: Sequence[float]) -> int:
    """Return the number of objects minus the smallest possible number."""
    return len(distances) - FEWEST


def distance_label(distances: Sequence[float]) -> int:
    """Return the bin of the nearest object."""
    nearest = np.float32(min(distances, default=-1.0))
    return int(np.searchsorted(THRESHOLDS, nearest, side="left")) - 1


def read_clevr(root: Path, label: Callable[[Sequence[float]], int], classes: list[str]) -> RawDataset:
    """Read the unpacked CLEVR_v1.0.zip, with one of the two kinds of label."""
    return RawDataset(
        list(classes), _read_split(root, "train", label, classes), _read_split(root, "val", label, classes)
    )


def _read_split(
    root: Path, split: str, label: Callable[[Sequence[float]], int], classes: list[str]
) -> ImageSplit:
    file = find_path(root, f"scenes/CLEVR_{split}_scenes.json", "CLEVR_v1.0.zip")
    scenes = _read_scenes(file)
    paths = [file.parent.parent / "images" / split / name for name, _ in scenes]
    require_files(paths, file)
    labels = check_labels((label(distances) for _, distances in scenes), len(classes), file)
    return ImageSplit(paths, labels, [name for name, _ in scenes])  # the keys of TFDS


def _read_scenes(file: Path) -> list[Scene]:
    with damaged_by(file, OSError, ValueError, TypeError, IndexError, RecursionError):
        scenes = json.loads(file.read_bytes(), object_hook=_reduce_scene)
    if not isinstance(scenes, list) or not all(isinstance(scene, tuple) for scene in scenes):
        raise damaged_file(file, "it is not a list of scenes")
    return scenes


def _reduce_scene(content: dict[str, Any]) -> object:
    """Keep only what the tasks need while a scene is parsed: all scenes as dicts take gigabytes."""
    if "pixel_coords" in content:
        return float(content["pixel_coords"][2])
    if "image_filename" in content:
        objects = content.get("objects")
        if not isinstance(objects, list) or not all(isinstance(x, float) for x in objects):
            raise ValueError(f"the objects of {content['image_filename']} have no pixel_coords")
        return str(content["image_filename"]), objects
    return content.get("scenes")
