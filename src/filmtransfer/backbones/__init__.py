"""Pretrained backbones by name."""

from .catalogue import (
    CATALOGUE,
    BackboneFacts,
    BackboneRecord,
    backbone_facts,
    build,
    list_backbones,
    record_for,
)
from .sites import family_of, film_sites
from .stages import Stage, run_parts, split_parts, stages
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
