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

__all__ = [
    "FiLM",
    "Numbers",
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
