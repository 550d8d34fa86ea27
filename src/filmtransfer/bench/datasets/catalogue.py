"""The catalogue of datasets: the 19 of VTAB in the paper's order, and CIFAR-10.

``catalogue.toml`` describes each dataset and its published files; ``READERS`` has the function that reads it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from . import clevr, dsprites, natural, smallnorb
from .camelyon import read_camelyon
from .cifar import read_cifar
from .dataset import DatasetEntry, PublishedFile, RawDataset
from .dmlab import read_dmlab
from .kitti import read_kitti
from .remote_sensing import LAND_USE, SCENES, read_class_folders
from .retinopathy import read_retinopathy
from .unpacked import search_patterns

READERS: dict[str, Callable[[Path], RawDataset]] = {
    "caltech101": natural.read_caltech101,
    "cifar10": partial(read_cifar, classes=10),
    "cifar100": partial(read_cifar, classes=100),
    "flowers102": natural.read_flowers102,
    "oxford_pets": natural.read_oxford_pets,
    "sun397": natural.read_sun397,
    "svhn": natural.read_svhn,
    "dtd": natural.read_dtd,
    "eurosat": partial(read_class_folders, classes=LAND_USE, archive="EuroSAT.zip"),
    "resisc45": partial(read_class_folders, classes=SCENES, archive="NWPU-RESISC45.rar"),
    "patch_camelyon": read_camelyon,
    "diabetic_retinopathy": read_retinopathy,
    "clevr_count": partial(clevr.read_clevr, label=clevr.count_label, classes=clevr.COUNTS),
    "clevr_distance": partial(clevr.read_clevr, label=clevr.distance_label, classes=clevr.DISTANCES),
    "dsprites_location": partial(dsprites.read_dsprites, latent=dsprites.X_POSITION),
    "dsprites_orientation": partial(dsprites.read_dsprites, latent=dsprites.ORIENTATION),
    "smallnorb_azimuth": partial(smallnorb.read_smallnorb, factor=smallnorb.AZIMUTH),
    "smallnorb_elevation": partial(smallnorb.read_smallnorb, factor=smallnorb.ELEVATION),
    "dmlab": read_dmlab,
    "kitti_distance": read_kitti,
}


def _read_catalogue() -> dict[str, DatasetEntry]:
    tables = tomllib.loads(files(__package__).joinpath("catalogue.toml").read_text("utf-8"))
    published = {name: _files(table["files"]) for name, table in tables.items() if "files" in table}
    entries = {}
    for name, table in tables.items():
        table["files"] = published[table.pop("files_of", name)]
        table["instead"] = _files(table.get("instead", ()))
        table["aliases"] = tuple(table.get("aliases", ()))
        table["markers"] = search_patterns(*table.get("markers", ()))
        entries[name] = DatasetEntry(name=name, read=READERS[name], **table)
    return entries


def _files(tables: Iterable[dict[str, Any]]) -> tuple[PublishedFile, ...]:
    return tuple(PublishedFile(**table) for table in tables)


DATASETS = _read_catalogue()
VTAB: tuple[str, ...] = tuple(entry.name for entry in DATASETS.values() if entry.group)
GROUPS = {"all": VTAB} | {
    group: tuple(entry.name for entry in DATASETS.values() if entry.group == group)
    for group in ("natural", "specialized", "structured")
}
