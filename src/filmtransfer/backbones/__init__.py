"""Pretrained backbones by name."""

from .catalogue import CATALOGUE, Entry, Listing, Numbers, build, entry_for, list_all, listing, numbers
from .sites import family_of, film_sites
from .weights import Backbone, assemble, digest, load_backbone

__all__ = [
    "CATALOGUE",
    "Backbone",
    "Entry",
    "Listing",
    "Numbers",
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
]
