"""Which number of the paper a run stands beside, by the run's settings.

On the run's backbone if the paper's table has it, else on the paper's own: the table then says that they differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .cells import Place
from .published import BACKBONES, PAPERS_BACKBONE, Published, lookup, published

Settings = Mapping[str, Any]
Beside = Callable[[Settings], Published | None]


def beside(settings: Settings, table: str, metric: str = "accuracy", **more: str) -> Published | None:
    """The number of one table of the paper for this data set, method and shots."""
    place = Place.of(settings)
    backbone = BACKBONES.get(settings["backbone"], PAPERS_BACKBONE)
    if backbone not in _backbones(table):
        backbone = PAPERS_BACKBONE
    if place.shots:
        more["shots"] = place.shots
    return lookup(table, place.dataset, str(settings["method"]), metric, backbone, **more)


def beside_results(settings: Settings) -> Published | None:
    """Among the few-shot or the VTAB-1k results."""
    return beside(settings, "few_shot_results" if Place.of(settings).shots else "vtab_results")


def beside_splits(settings: Settings) -> Published | None:
    """Among the ablations of how the data are used."""
    table = "few_shot_ablation" if Place.of(settings).shots else "vtab_ablation"
    return beside(settings, table, split=str(settings.get("split")))


def beside_competitors(settings: Settings, metric: str = "accuracy") -> Published | None:
    """In the comparison of adapters, where every method has a backbone of its own."""
    place, method = Place.of(settings), str(settings["method"])
    found, ours = _backbones("vtab_sota", method), BACKBONES.get(settings["backbone"])
    if place.shots or (ours not in found and len(found) != 1):
        return None
    backbone = ours if ours in found else next(iter(found))
    return lookup("vtab_sota", place.dataset, method, metric, str(backbone))


def _backbones(table: str, method: str | None = None) -> set[str]:
    return {p.backbone for p in published() if p.table == table and method in (None, p.method)}
