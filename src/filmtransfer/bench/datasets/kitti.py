"""KITTI: the distance of the nearest car, van or truck.

The published test images have no labels, so TFDS divides the training images into three splits by video, since frames
of one drive look alike. The development kit lists the video of each frame.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from .dataset import ImageSplit, RawDataset
from .unpacked import check_labels, damaged_file, find_path, read_lines, require_files

# google-research/task_adaptation, task_adaptation/data/kitti.py: the label of a distance (z, in metres, from
# the camera) is the index of the last threshold below it; 1000 stands for an image without a vehicle.
# Columns of a label line: the readme of KITTI's devkit_object.zip.
VEHICLES = ("Car", "Van", "Truck")
THRESHOLDS = np.array([-100.0, 8.0, 20.0, 999.0], dtype=np.float32)
NO_VEHICLE = 1000.0
COLUMNS, Z = 15, 13
CLASSES = ["≤ 8 m", "8–20 m", "> 20 m", "no vehicle"]

# tensorflow/datasets 3.1.0, tensorflow_datasets/object_detection/kitti.py: a tenth of the videos is drawn
# with numpy's legacy generator for the test split, then as many of the others for the validation split.
SEED = 123


def read_kitti(root: Path) -> RawDataset:
    """Read the unpacked data_object_image_2.zip, data_object_label_2.zip and devkit_object.zip."""
    images = find_path(root, "training/image_2", "data_object_image_2.zip")
    labels = find_path(root, "training/label_2", "data_object_label_2.zip")
    frames = _split(_videos(root))
    train, val, test = (_image_split(images, labels, frames[name]) for name in ("train", "val", "test"))
    return RawDataset(list(CLASSES), train, test, val)


def distance_label(distances: Iterable[float]) -> int:
    """Return the bin of the nearest vehicle."""
    nearest = np.float32(min([*distances, NO_VEHICLE]))
    return int(np.searchsorted(THRESHOLDS, nearest, side="left")) - 1


def _image_split(images: Path, labels: Path, frames: list[int]) -> ImageSplit:
    paths = [images / f"{frame:06}.png" for frame in frames]
    require_files(paths, images)
    bins = [distance_label(_distances(labels / f"{frame:06}.txt")) for frame in frames]
    return ImageSplit(
        paths, check_labels(bins, len(CLASSES), labels), [path.name for path in paths]
    )  # the keys of TFDS


def _distances(file: Path) -> list[float]:
    """Return the distances of the vehicles in a label file; DontCare regions and people are not vehicles."""
    lines = [line.split() for line in read_lines(file)]
    if any(len(line) != COLUMNS for line in lines):
        raise damaged_file(file, f"a line does not have {COLUMNS} columns")
    try:
        return [float(line[Z]) for line in lines if line[0] in VEHICLES]
    except ValueError:
        raise damaged_file(file, "a distance is not a number") from None


def _videos(root: Path) -> list[str]:
    """Return the video of each training image."""
    indices_file = find_path(
        root, "mapping/train_rand.txt", "devkit_object.zip"
    )  # line numbers from 1, by image
    mapping_file = find_path(
        root, "mapping/train_mapping.txt", "devkit_object.zip"
    )  # "date video frame" by line
    lines = [line.split() for line in read_lines(mapping_file)]
    try:
        numbers = [int(number) for number in ",".join(read_lines(indices_file)).split(",") if number.strip()]
        if min(numbers) < 1:
            raise IndexError
        videos = [lines[number - 1][1] for number in numbers]
    except (ValueError, IndexError):
        raise damaged_file(indices_file, f"its numbers are not lines of {mapping_file.name}") from None
    if len(set(videos)) < 3:
        raise damaged_file(mapping_file, "it names too few videos for three splits")
    return videos


def _split(videos: list[str]) -> dict[str, list[int]]:
    """Return the images of the three splits in order."""
    names = sorted(set(videos))
    count = max(1, len(names) // 10)
    legacy_generator = np.random.RandomState(SEED)
    test = set(legacy_generator.choice(names, count, replace=False).tolist())
    val = set(legacy_generator.choice(sorted(set(names) - test), count, replace=False).tolist())
    split: dict[str, list[int]] = {"train": [], "val": [], "test": []}
    for frame, video in enumerate(videos):
        split["test" if video in test else "val" if video in val else "train"].append(frame)
    return split
