"""EuroSAT and RESISC45: satellite images in a folder per class.

Both are published as one split. VTAB trains on the first 60% in the order of TFDS, validates on the
next 20% and tests on the last 20% (google-research/task_adaptation,
task_adaptation/data/eurosat.py and resisc45.py).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...data.images import find_images
from ...errors import InputError
from .dataset import ImageSplit, RawDataset
from .unpacked import find_path

# fmt: off
LAND_USE = [
    "AnnualCrop", "Forest", "HerbaceousVegetation", "Highway", "Industrial", "Pasture", "PermanentCrop",
    "Residential", "River", "SeaLake",
]
SCENES = [
    "airplane", "airport", "baseball_diamond", "basketball_court", "beach", "bridge", "chaparral", "church",
    "circular_farmland", "cloud", "commercial_area", "dense_residential", "desert", "forest", "freeway",
    "golf_course", "ground_track_field", "harbor", "industrial_area", "intersection", "island", "lake",
    "meadow", "medium_residential", "mobile_home_park", "mountain", "overpass", "palace", "parking_lot",
    "railway", "railway_station", "rectangular_farmland", "river", "roundabout", "runway", "sea_ice", "ship",
    "snowberg", "sparse_residential", "stadium", "storage_tank", "tennis_court", "terrace",
    "thermal_power_station", "wetland",
]
# fmt: on


def read_class_folders(root: Path, classes: list[str], archive: str) -> RawDataset:
    """Read a folder per class; all images are training images in the order of their names.

    The keys are those of tensorflow/datasets (tensorflow_datasets/image_classification/eurosat.py and
    resisc45.py) since 2020: the class, an underscore, and the file name. Before that, under the same version
    numbers, a key was the path on the machine that stored the dataset (tensorflow_datasets/image/eurosat.py and
    resisc45.py), so the images of the earliest results cannot be determined.
    """
    top = find_path(root, classes[0], archive).parent
    paths: list[Path] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        images = find_images(top / name)
        if not images:
            raise InputError(f"There are no images in {top / name}.", f"Unpack {archive} again.")
        paths += images
        labels += [label] * len(images)
    keys = [f"{classes[label]}_{path.name}" for path, label in zip(paths, labels, strict=True)]
    return RawDataset(
        list(classes),
        ImageSplit(paths, np.array(labels, np.int64), keys),
        ImageSplit((), np.zeros(0, np.int64)),
    )
