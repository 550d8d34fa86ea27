"""Find the published number that corresponds to a run.

The number is on the backbone of the run if the paper's table has it, else on the paper's main backbone; the caption of
the table then says that they differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..federated.plan import Plan
from .averages import DatasetShots
from .federated_settings import bound_of
from .published import BACKBONES, PAPER_BACKBONE, Published, lookup, published
from .rows import RunSettings

PublishedLookup = Callable[[RunSettings], Published | None]


def published_number(
    settings: RunSettings, table: str, metric: str = "accuracy", **more: str
) -> Published | None:
    """Return the number of one table of the paper for this dataset, method and shots."""
    key = DatasetShots.from_settings(settings)
    backbone = BACKBONES.get(settings["backbone"], PAPER_BACKBONE)
    if backbone not in _backbones(table):
        backbone = PAPER_BACKBONE
    if key.shots:
        more["shots"] = key.shots
    return lookup(table, key.dataset, str(settings["method"]), metric, backbone, **more)


def published_result(settings: RunSettings) -> Published | None:
    """Return the number in the few-shot or the VTAB-1k results."""
    return published_number(
        settings, "few_shot_results" if DatasetShots.from_settings(settings).shots else "vtab_results"
    )


def published_split(settings: RunSettings) -> Published | None:
    """Return the number in the ablation of the episode splits."""
    table = "few_shot_ablation" if DatasetShots.from_settings(settings).shots else "vtab_ablation"
    return published_number(settings, table, split=str(settings.get("split")))


def published_competitor(settings: RunSettings, metric: str = "accuracy") -> Published | None:
    """Return the number in the comparison of adapters, where the backbones of the methods differ."""
    key, method = DatasetShots.from_settings(settings), str(settings["method"])
    published_on, ours = _backbones("vtab_sota", method), BACKBONES.get(settings["backbone"])
    if key.shots or (ours not in published_on and len(published_on) != 1):
        return None
    backbone = ours if ours in published_on else next(iter(published_on))
    return lookup("vtab_sota", key.dataset, method, metric, str(backbone))


# The tables of the paper with federated results; the first is the largest.
FEDERATED = {
    "cifar100": ("fed_learning_cifar", "fed_learning_algorithms", "fed_learning_bit_vs_fit"),
    "quickdraw": ("fed_learning_quickdraw", "fed_learning_qd_bit_vs_fit"),
}


def published_federated(settings: RunSettings, setting: str) -> Published | None:
    """Return the ``global`` or ``personalized`` accuracy, with the same number of rounds if the paper has it."""
    plan, bound = Plan.from_settings(settings), bound_of(settings)
    if plan.compression != "none" or plan.privacy is not None or settings.get("classes"):
        return None  # a subset of the classes is another task
    expected = {
        "clients": str(settings["clients"]),
        "shots": str(settings["shots"]),
        "setting": setting,
        "algorithm": plan.algorithm if bound == "federated" else f"{bound}_bound",
    }
    tables = FEDERATED.get(str(settings["dataset"]), ())
    candidates = [
        p
        for table in tables
        for p in published()
        if (p.table, p.method, p.metric) == (table, settings["method"], "accuracy")
        and expected.items() <= p.settings.items()
    ]
    return min(candidates, key=lambda p: p.settings["rounds"] != str(plan.rounds), default=None)


def published_cost(settings: RunSettings, metric: str) -> Published | None:
    """Return the published parameters sent ``per_round`` or ``overall``, with the unit in which they are printed."""
    plan, tables = Plan.from_settings(settings), FEDERATED.get(str(settings["dataset"]))
    if tables is None:
        return None
    for unit in ("m", "b"):
        number = lookup(
            tables[-1], str(settings["dataset"]), str(settings["method"]), f"{metric}_parameters_{unit}",
            rounds=60, setting="global", algorithm="fedavg",
        )  # fmt: skip
        if number is not None and (metric == "per_round" or plan.rounds == 60):
            return replace(number, printed=number.printed + unit.upper())
    return None


def _backbones(table: str, method: str | None = None) -> set[str]:
    return {p.backbone for p in published() if p.table == table and method in (None, p.method)}
