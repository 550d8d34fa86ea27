"""The heads: modules on plain features, one file each, and the statistics they can be built from."""

from __future__ import annotations

from typing import Literal

from ..arrays import SingularError
from ..errors import UsageError, check_choice
from .cosine import Cosine
from .gaussian import GaussianHead
from .head import Head, State, class_means, map_state, options_of
from .lda import LDA
from .linear import Linear
from .mahalanobis import Mahalanobis
from .protonets import ProtoNets
from .qda import QDA
from .scores import Scores
from .statistics import Scatter, Statistics

HeadName = Literal["lda", "qda", "protonets", "linear", "cosine", "mahalanobis"]  # for type checkers

# Registered once: nothing else in the package compares names.
HEADS: dict[str, type[Head]] = {
    head.name: head for head in (LDA, QDA, ProtoNets, Linear, Cosine, Mahalanobis)
}


def make_head(name: str, **options: object) -> Head:
    """Return a new, unconfigured head by name; the head checks its own options."""
    check_choice("The head", name, HEADS)
    known = options_of(HEADS[name])
    if unknown := [option for option in options if option not in known]:
        raise UsageError(
            f"The {name} head has no option {unknown[0]!r}.",
            f"Its options: {', '.join(known)}." if known else "It has no options.",
        )
    return HEADS[name](**options)


__all__ = [
    "HEADS",
    "LDA",
    "QDA",
    "Cosine",
    "GaussianHead",
    "Head",
    "HeadName",
    "Linear",
    "Mahalanobis",
    "ProtoNets",
    "Scatter",
    "Scores",
    "SingularError",
    "State",
    "Statistics",
    "class_means",
    "make_head",
    "map_state",
]
