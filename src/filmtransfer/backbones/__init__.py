"""Pretrained backbones by name."""

from .catalogue import (
    CATALOGUE,
    BackboneFacts,
    BackboneListing,
    BackboneRecord,
    backbone_facts,
    build,
    list_backbones,
    listing,
    record_for,
)
from .sites import family_of, film_sites
from .stages import Stage, run_parts, split_parts, stages
from .weights import Backbone, assemble, digest, load_backbone

__all__ = [
    "CATALOGUE",
    "Backbone",
    "BackboneRecord",
    "BackboneListing",
    "BackboneFacts",
    "Stage",
    "assemble",
    "build",
    "digest",
    "record_for",
    "family_of",
    "film_sites",
    "list_backbones",
    "listing",
    "load_backbone",
    "backbone_facts",
    "split_parts",
    "stages",
    "run_parts",
]
