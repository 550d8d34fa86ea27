"""The backbones of the catalogue, and whether their weights are available."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from .catalogue import CATALOGUE, BackboneRecord
from .facts import BackboneFacts, backbone_facts
from .hub import cached_on_disk


@dataclass(frozen=True)
class BackboneListing:
    """A line of ``fit backbones``: a backbone, where its weights come from and whether they are available."""

    record: BackboneRecord
    facts: BackboneFacts
    source: str
    usable: bool


def list_backbones() -> list[BackboneListing]:
    """Return the listings of all backbones of the catalogue."""
    rows = []
    for name, record in CATALOGUE.items():
        facts = backbone_facts(name)
        if record.package:
            usable, source = importlib.util.find_spec(record.package) is not None, f"package {record.package}"
        else:
            usable = cached_on_disk(facts.hub_id)
            source = f"hub {record.timm_name}" + (" (downloaded)" if usable else ", or --weights FILE")
        rows.append(BackboneListing(record, facts, source, usable))
    return rows
