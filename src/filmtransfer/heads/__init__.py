"""The heads: nn.Modules on plain features, and the statistics they can be built from."""

from __future__ import annotations

from typing import Any, Literal

from ..errors import UsageError, invalid_choice
from .gaussian import GaussianHead, Head, Prior, State, log_prior
from .lda import LDA
from .linear import Linear
from .lowrank import SingularError
from .protonets import ProtoNets
from .qda import QDA
from .statistics import Statistics

HeadName = Literal["lda", "qda", "protonets", "linear"]

HEADS: dict[str, type[GaussianHead]] = {head.name: head for head in (LDA, QDA, ProtoNets, Linear)}


def make_head(name: str, **options: Any) -> GaussianHead:
    """A new, unconfigured head by name."""
    if name not in HEADS:
        raise invalid_choice("The head", name, HEADS)
    try:
        return HEADS[name](**options)
    except TypeError:
        raise UsageError(
            f"The {name} head has no such option: {', '.join(options)}.",
            "See docs/reference.md for its options.",
        ) from None


__all__ = [
    "HEADS",
    "LDA",
    "QDA",
    "GaussianHead",
    "Head",
    "HeadName",
    "Linear",
    "Prior",
    "ProtoNets",
    "SingularError",
    "State",
    "Statistics",
    "log_prior",
    "make_head",
]
