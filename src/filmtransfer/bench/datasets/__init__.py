"""Image datasets of the benchmarks by name, read without TensorFlow."""

from .catalogue import DATASETS, GROUPS, VTAB
from .dataset import Dataset, DatasetEntry, ImageSplit
from .fetch import fetch
from .load import load_dataset
from .location import InventoryRow, custom_datasets, inventory
from .vtab import load_vtab

__all__ = [
    "DATASETS",
    "Dataset",
    "DatasetEntry",
    "GROUPS",
    "ImageSplit",
    "InventoryRow",
    "VTAB",
    "custom_datasets",
    "fetch",
    "inventory",
    "load_dataset",
    "load_vtab",
]
