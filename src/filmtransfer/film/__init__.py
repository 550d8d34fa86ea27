"""FiLM layers and the ways to handle their numbers."""

from .attach import (
    FilmParameters,
    attach,
    check,
    count,
    fold,
    layers,
    load,
    parameters,
    per_sample,
    read,
    reset,
    set_trainable,
)
from .layer import FiLM
from .table import FilmTable

__all__ = [
    "FiLM",
    "FilmParameters",
    "FilmTable",
    "attach",
    "check",
    "count",
    "fold",
    "layers",
    "set_trainable",
    "load",
    "parameters",
    "per_sample",
    "read",
    "reset",
]
