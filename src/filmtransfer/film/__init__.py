"""FiLM layers and the ways to handle their numbers."""

from .attach import (
    Numbers,
    attach,
    check,
    count,
    fold,
    layers,
    learn,
    load,
    parameters,
    per_sample,
    read,
    reset,
)
from .layer import FiLM
from .table import Table

__all__ = [
    "FiLM",
    "Numbers",
    "Table",
    "attach",
    "check",
    "count",
    "fold",
    "layers",
    "learn",
    "load",
    "parameters",
    "per_sample",
    "read",
    "reset",
]
