"""Pretrained backbones by name.

What needs torch is imported when it is first used: the facts about the backbones of the catalogue do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy_names
from .catalogue import CATALOGUE, BackboneRecord, record_for
from .facts import BackboneFacts, backbone_facts
from .listing import list_backbones
from .sites import family_of, film_sites
from .stages import Stage, run_parts, split_parts, stages

if TYPE_CHECKING:
    from .architecture import build
    from .weights import Backbone, assemble, digest, load_backbone

__all__ = [
    "CATALOGUE",
    "Backbone",
    "BackboneRecord",
    "BackboneFacts",
    "Stage",
    "assemble",
    "build",
    "digest",
    "record_for",
    "family_of",
    "film_sites",
    "list_backbones",
    "load_backbone",
    "backbone_facts",
    "split_parts",
    "stages",
    "run_parts",
]

__getattr__ = lazy_names(
    __name__,
    {"architecture": ("build",), "weights": ("Backbone", "assemble", "digest", "load_backbone")},
)
