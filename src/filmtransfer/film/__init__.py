"""FiLM layers, and functions that attach, read, load and fold their parameters."""

from .attach import (
    FilmParameters,
    attach,
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
