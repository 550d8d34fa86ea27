"""Facts about a backbone without its weights: sizes, FiLM sites, stages and input format.

``facts.json`` has those of the catalogue, so that nobody imports torch to look them up; ``make docs`` writes it, and a
test compares it with timm. The facts of other timm models are derived from timm.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..data.pixels import PixelSpec
from .catalogue import record_for
from .stages import Stage, sites_from, stage_of

TABLE = Path(__file__).with_name("facts.json")  # by timm name


@dataclass(frozen=True)
class BackboneFacts:
    """What is known of a backbone from its name alone, without its weights."""

    family: str
    parameters: int  # |θ|
    features: int  # D
    site_names: tuple[str, ...]  # FiLM sites in the order of the network
    channels: tuple[int, ...]  # of each FiLM site
    stages: tuple[Stage, ...]
    pixels: PixelSpec  # the input format of its pretraining
    patch: int  # side of a transformer's patches; 1 for other networks
    hub_id: str  # the repository of its weights on the hub, if there is one

    @property
    def film_parameters(self) -> int:
        """|ψ| with FiLM at every site."""
        return 2 * sum(self.channels)

    def sites_from(self, stage: int) -> list[str]:
        """Return the FiLM sites of a stage and of all later stages."""
        return sites_from(stage, self.site_names, self.stages)

    def stage_of(self, site: str) -> int:
        """Return the index of the stage that contains a FiLM site."""
        return stage_of(site, self.stages)

    def film_parameters_from(self, stage: int) -> int:
        """Return |ψ| with FiLM in a stage and all later stages."""
        trained = set(self.sites_from(stage))
        return sum(2 * c for site, c in zip(self.site_names, self.channels, strict=True) if site in trained)

    def fit_size(self, size: int) -> int:
        """Return the largest image size up to ``size`` that consists of complete patches, at least one."""
        return fit_size(size, self.patch)

    def to_json(self) -> dict[str, Any]:
        """Return the entry of ``facts.json``."""
        return {
            "family": self.family,
            "parameters": self.parameters,
            "features": self.features,
            "patch": self.patch,
            "hub_id": self.hub_id,
            "pixels": asdict(self.pixels),
            "stages": {stage.name: list(stage.parts) for stage in self.stages},
            "sites": dict(zip(self.site_names, self.channels, strict=True)),
        }

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> BackboneFacts:
        """Return the facts of an entry of ``facts.json``."""
        pixels = entry["pixels"]
        return cls(
            family=entry["family"],
            parameters=entry["parameters"],
            features=entry["features"],
            site_names=tuple(entry["sites"]),
            channels=tuple(entry["sites"].values()),
            stages=tuple(Stage(name, tuple(parts)) for name, parts in entry["stages"].items()),
            pixels=PixelSpec(**(pixels | {"mean": tuple(pixels["mean"]), "std": tuple(pixels["std"])})),
            patch=entry["patch"],
            hub_id=entry["hub_id"],
        )


def fit_size(size: int, patch: int) -> int:
    """Return the largest image size up to ``size`` that consists of complete patches, at least one."""
    return max(size // patch, 1) * patch


@cache
def backbone_facts(name: str) -> BackboneFacts:
    """Return the facts about a backbone of the catalogue or a timm model."""
    record = record_for(name)
    entry = _table().get(record.timm_name)
    if entry is not None:
        return BackboneFacts.from_json(entry)
    from .architecture import derive_facts  # here, because it imports torch

    return derive_facts(record)


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(TABLE.read_text("utf-8"))
    return table
