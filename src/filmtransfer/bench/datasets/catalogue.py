"""The catalogue of datasets: the 19 of VTAB in the paper's order, and CIFAR-10."""

from __future__ import annotations

from .dataset import DatasetEntry
from .natural import CIFAR10, NATURAL
from .specialised import SPECIALISED
from .structured import STRUCTURED

VTAB: tuple[str, ...] = tuple(entry.name for entry in (*NATURAL, *SPECIALISED, *STRUCTURED))
DATASETS: dict[str, DatasetEntry] = {e.name: e for e in (*NATURAL, *SPECIALISED, *STRUCTURED, CIFAR10)}
