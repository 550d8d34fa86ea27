"""Pretrained backbones by name."""

from .catalogue import CATALOGUE, Entry, Listing, Numbers, build, entry_for, list_all, listing, numbers
from .sites import family_of, film_sites
from .stages import Stage, parts_below, stages, walk
from .weights import Backbone, assemble, digest, load_backbone

__all__ = [
    "CATALOGUE",
    "Backbone",
    "Entry",
    "Listing",
    "Numbers",
    "Stage",
    "assemble",
    "build",
    "digest",
    "entry_for",
    "family_of",
    "film_sites",
    "list_all",
    "listing",
    "load_backbone",
    "numbers",
    "parts_below",
    "stages",
    "walk",
]
