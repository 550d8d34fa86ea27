"""Named image sets for the benchmarks, read without TensorFlow."""

from .base import DataSet, Entry, Part
from .catalogue import DATASETS, VTAB
from .fetch import fetch
from .find import Presence, inventory, own_sets
from .load import load_set
from .vtab import load_vtab

__all__ = [
    "DATASETS",
    "DataSet",
    "Entry",
    "Part",
    "Presence",
    "VTAB",
    "fetch",
    "inventory",
    "load_set",
    "load_vtab",
    "own_sets",
]
