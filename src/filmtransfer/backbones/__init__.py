"""Pretrained backbones by name."""

from .catalogue import (
    CATALOGUE,
    BackboneFacts,
    BackboneRecord,
    Listing,
    backbone_facts,
    build,
    list_all,
    listing,
    record_for,
)
from .sites import family_of, film_sites
from .stages import Stage, parts_below, stages, walk
from .weights import Backbone, assemble, digest, load_backbone

__all__ = [
    "CATALOGUE",
    "Backbone",
    "BackboneRecord",
    "Listing",
    "BackboneFacts",
    "Stage",
    "assemble",
    "build",
    "digest",
    "record_for",
    "family_of",
    "film_sites",
    "list_all",
    "listing",
    "load_backbone",
    "backbone_facts",
    "parts_below",
    "stages",
    "walk",
]
