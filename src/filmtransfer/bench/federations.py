"""Federated runs among the runs of a recipe: what they may say, and what makes one of them another.

A bound is not reached in rounds, so nothing about rounds belongs to it: one bound stands beside all the ways to
aggregate and to compress that a recipe sweeps over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import UsageError, invalid_choice
from ..federated.plan import Plan

BOUNDS = ("federated", "lower", "upper")
PLAN = Plan.names()
FIELDS = PLAN | {
    "clients", "ways", "partition", "alpha", "classes", "bound", "bound_steps", "bound_steps_upper",
}  # fmt: skip
READ = FIELDS | {"dataset", "shots", "test_images", "protocol", "method", "preset", "weights"}
# Of a federation that has rounds.
ROUNDS = {
    "rounds", "clients_per_round", "steps", "decay", "decay_every", "algorithm", "mu", "trim", "malicious",
    "compression", "secure", "privacy", "min_clients", "evaluate_every",
}  # fmt: skip
# Fields that a plan got after there were results on file, with what they had been until then: said only if changed.
LATER: dict[str, Any] = {}
# Of one algorithm.
ONLY = {"mu": ("fedprox",), "trim": ("trimmed_mean",), "malicious": ("krum", "multikrum")}


def is_federated(settings: Mapping[str, Any]) -> bool:
    return settings.get("protocol") == "federated"


def bound_of(settings: Mapping[str, Any]) -> str:
    """Whether a run is the federation itself, or what bounds it from below or above."""
    return str(settings.get("bound", "federated"))


def bound_steps(settings: Mapping[str, Any]) -> int | None:
    """The steps of a bound as they were said: an upper bound may have its own."""
    own = settings.get("bound_steps_upper") if bound_of(settings) == "upper" else None
    found = settings.get("bound_steps") if own is None else own
    return None if found is None else int(found)


def decides(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What makes it this run: its task, and of its plan what it uses, whether said or left to the preset."""
    plan, bound = Plan.from_settings(settings).to_dict(), bound_of(settings)
    found = {k: v for k, v in settings.items() if k != "preset"} | plan | {"bound": bound}
    said = bound_steps(settings)
    unused = {"bound_steps", "bound_steps_upper"} if bound == "federated" else {*ROUNDS}
    if bound != "federated" and said is not None:
        found |= {"bound_steps": said}
        unused |= {"bound_steps_upper"}
    elif bound != "federated":
        unused -= {"steps"}  # those of a round stand in
    unused |= {name for name, whose in ONLY.items() if plan["algorithm"] not in whose}
    unused |= {name for name, before in LATER.items() if plan[name] == before}
    return {k: v for k, v in found.items() if k not in unused}


def check(settings: Mapping[str, Any], others: set[str]) -> None:
    """Say so if a run has settings that only runs of the other kind read, or a federated one lacks its clients."""
    federated = is_federated(settings)
    for name in sorted(settings.keys() - (READ if federated else others)):
        if federated:
            raise UsageError(f"{name} says nothing to a federated run.", f"Known: {', '.join(sorted(READ))}.")
        raise UsageError(f"{name} is a setting of federated runs.", 'They have protocol = "federated".')
    if not federated:
        return
    if bound_of(settings) not in BOUNDS:
        raise invalid_choice("bound", settings["bound"], BOUNDS)
    for name in ("clients", "ways", "shots"):
        value = settings.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UsageError(
                f"{name} of a federated run cannot be {value!r}.", "It is a whole number of at least 1."
            )


def name(settings: Mapping[str, Any]) -> str:
    """A run in words."""
    plan, bound = Plan.from_settings(settings), bound_of(settings)
    how = plan.algorithm if bound == "federated" else f"{bound} bound"
    if bound == "federated" and plan.compression != "none":
        how += f" {plan.compression}"
    return (
        f"{settings['dataset']} {settings['clients']} clients {settings['shots']} shots "
        f"{settings['method']} {how} seed {settings['seed']}"
    )
