"""Which number of the paper a run stands beside, by the run's settings.

On the run's backbone if the paper's table has it, else on the paper's own: the table then says that they differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..federated.plan import from_settings
from .averages import DatasetShots
from .federations import bound_of
from .published import BACKBONES, PAPERS_BACKBONE, Published, lookup, published

Settings = Mapping[str, Any]
PublishedLookup = Callable[[Settings], Published | None]


def published_number(
    settings: Settings, table: str, metric: str = "accuracy", **more: str
) -> Published | None:
    """The number of one table of the paper for this data set, method and shots."""
    place = DatasetShots.from_settings(settings)
    backbone = BACKBONES.get(settings["backbone"], PAPERS_BACKBONE)
    if backbone not in _backbones(table):
        backbone = PAPERS_BACKBONE
    if place.shots:
        more["shots"] = place.shots
    return lookup(table, place.dataset, str(settings["method"]), metric, backbone, **more)


def published_result(settings: Settings) -> Published | None:
    """Among the few-shot or the VTAB-1k results."""
    return published_number(
        settings, "few_shot_results" if DatasetShots.from_settings(settings).shots else "vtab_results"
    )


def published_split(settings: Settings) -> Published | None:
    """Among the ablations of how the data are used."""
    table = "few_shot_ablation" if DatasetShots.from_settings(settings).shots else "vtab_ablation"
    return published_number(settings, table, split=str(settings.get("split")))


def published_competitor(settings: Settings, metric: str = "accuracy") -> Published | None:
    """In the comparison of adapters, where every method has a backbone of its own."""
    place, method = DatasetShots.from_settings(settings), str(settings["method"])
    found, ours = _backbones("vtab_sota", method), BACKBONES.get(settings["backbone"])
    if place.shots or (ours not in found and len(found) != 1):
        return None
    backbone = ours if ours in found else next(iter(found))
    return lookup("vtab_sota", place.dataset, method, metric, str(backbone))


# The tables of the paper that a federated run may stand in; the first is the largest.
FEDERATED = {
    "cifar100": ("fed_learning_cifar", "fed_learning_algorithms", "fed_learning_bit_vs_fit"),
    "quickdraw": ("fed_learning_quickdraw", "fed_learning_qd_bit_vs_fit"),
}


def published_federated(settings: Settings, setting: str) -> Published | None:
    """Among the federated results, ``global`` or ``personalized``: of as many rounds if the paper has them, else of its own."""
    plan, bound = from_settings(settings), bound_of(settings)
    if plan.compression != "none" or plan.privacy is not None or settings.get("classes"):
        return None  # some of the classes are another task
    wanted = {
        "clients": str(settings["clients"]),
        "shots": str(settings["shots"]),
        "setting": setting,
        "algorithm": plan.algorithm if bound == "federated" else f"{bound}_bound",
    }
    tables = FEDERATED.get(str(settings["dataset"]), ())
    found = [
        p
        for table in tables
        for p in published()
        if (p.table, p.method, p.metric) == (table, settings["method"], "accuracy")
        and wanted.items() <= p.settings.items()
    ]
    return min(found, key=lambda p: p.settings["rounds"] != str(plan.rounds), default=None)


def published_cost(settings: Settings, metric: str) -> Published | None:
    """Of a federation's ``per_round`` or ``overall`` numbers; with the unit that they are printed in."""
    plan, tables = from_settings(settings), FEDERATED.get(str(settings["dataset"]))
    if tables is None:
        return None
    for unit in ("m", "b"):
        found = lookup(
            tables[-1], str(settings["dataset"]), str(settings["method"]), f"{metric}_parameters_{unit}",
            rounds=60, setting="global", algorithm="fedavg",
        )  # fmt: skip
        if found is not None and (metric == "per_round" or plan.rounds == 60):
            return replace(found, printed=found.printed + unit.upper())
    return None


def _backbones(table: str, method: str | None = None) -> set[str]:
    return {p.backbone for p in published() if p.table == table and method in (None, p.method)}
