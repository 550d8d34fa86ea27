"""The specialised datasets of VTAB in the paper's order, and the reader of those with a folder per class.

EuroSAT and RESISC45 are published as one split. VTAB trains on the first 60% in the order of TFDS, validates on the
next 20% and tests on the last 20% (google-research/task_adaptation,
task_adaptation/data/eurosat.py and resisc45.py).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from ...data.images import find_images
from ...errors import InputError
from .camelyon import PATCH_CAMELYON
from .dataset import DatasetEntry, ImageSplit, PublishedFile, RawDataset
from .retinopathy import DIABETIC_RETINOPATHY
from .unpacked import find_path, search_patterns

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
KEYS_CHANGED = (
    "TensorFlow Datasets stored it in another order until 2020: the earliest results used other images."
)


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


# The checksum is that of tensorflow/datasets, tensorflow_datasets/url_checksums/eurosat.txt.
EUROSAT = DatasetEntry(
    name="eurosat",
    title="EuroSAT",
    classes=len(LAND_USE),
    home="https://github.com/phelber/eurosat",
    licence="MIT",
    files=(
        PublishedFile(
            "EuroSAT.zip",
            "https://madm.dfki.de/files/sentinel/EuroSAT.zip",
            sha256="8ebea626349354c5328b142b96d0430e647051f26efc2dc974c843f25ecf70bd",
            bytes=94280567,
        ),
    ),
    read=partial(read_class_folders, classes=LAND_USE, archive="EuroSAT.zip"),
    group="specialized",
    free=True,
    aliases=("eurosat_rgb",),
    note=KEYS_CHANGED,
    markers=search_patterns(LAND_USE[0]),
)

RESISC45 = DatasetEntry(
    name="resisc45",
    title="Resics45",
    classes=len(SCENES),
    home="https://1drv.ms/u/s!AmgKYzARBl5ca3HNaHIlzp_IXjs",
    licence="none stated",
    files=(PublishedFile("NWPU-RESISC45.rar"),),
    read=partial(read_class_folders, classes=SCENES, archive="NWPU-RESISC45.rar"),
    group="specialized",
    aliases=("nwpu_resisc45",),
    note=KEYS_CHANGED,
    markers=search_patterns(SCENES[0]),
)

SPECIALISED: tuple[DatasetEntry, ...] = (EUROSAT, RESISC45, PATCH_CAMELYON, DIABETIC_RETINOPATHY)
