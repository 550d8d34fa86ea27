"""The settings of federated runs in a recipe: which are allowed, and which determine the identity of a run.

A bound has no rounds, so settings of rounds do not belong to its identity: one bound serves all algorithms and
compressions of a sweep.
"""

from __future__ import annotations

from ..errors import UsageError, check_choice, check_count
from ..federated.plan import Plan
from .rows import RunSettings, quantity

BOUNDS = ("federated", "lower", "upper")
FEDERATED_KEYS = Plan.names() | {
    "clients", "ways", "partition", "alpha", "classes", "bound", "bound_steps", "bound_steps_upper",
}  # fmt: skip
ALLOWED_KEYS = FEDERATED_KEYS | {
    "dataset", "shots", "test_images", "protocol", "method", "preset", "weights",
}  # fmt: skip
# Used by runs with rounds only.
ROUND_KEYS = {
    "rounds", "clients_per_round", "steps", "decay", "decay_every", "algorithm", "mu", "trim", "malicious",
    "compression", "secure", "privacy", "min_clients", "evaluate_every", "assess",
}  # fmt: skip
# Settings that were added to the plan after results had been stored, with their previous values: part of
# the identity only if they differ.
ADDED_KEYS: dict[str, object] = {"assess": True}
# Used by some algorithms only.
ALGORITHM_KEYS = {"mu": ("fedprox",), "trim": ("trimmed_mean",), "malicious": ("krum", "multikrum")}


def is_federated(settings: RunSettings) -> bool:
    """Return whether a run is federated."""
    return settings.get("protocol") == "federated"


def bound_of(settings: RunSettings) -> str:
    """Return whether a run is the federation itself ("federated"), or its "lower" or "upper" bound."""
    return str(settings.get("bound", "federated"))


def bound_steps(settings: RunSettings) -> int | None:
    """Return the steps of a bound if they are set; the upper bound may have its own."""
    own = settings.get("bound_steps_upper") if bound_of(settings) == "upper" else None
    steps = settings.get("bound_steps") if own is None else own
    return None if steps is None else int(steps)


def identity(settings: RunSettings) -> dict[str, object]:
    """Return the settings that determine a run: its task, and what it uses of its complete plan."""
    plan, bound = Plan.from_settings(settings).to_dict(), bound_of(settings)
    complete = {k: v for k, v in settings.items() if k != "preset"} | plan | {"bound": bound}
    steps = bound_steps(settings)
    unused = {"bound_steps", "bound_steps_upper"} if bound == "federated" else {*ROUND_KEYS}
    if bound != "federated" and steps is not None:
        complete |= {"bound_steps": steps}
        unused |= {"bound_steps_upper"}
    elif bound != "federated":
        unused -= {"steps"}  # used by default
    unused |= {name for name, algorithms in ALGORITHM_KEYS.items() if plan["algorithm"] not in algorithms}
    unused |= {name for name, before in ADDED_KEYS.items() if plan[name] == before}
    return {k: v for k, v in complete.items() if k not in unused}


def validate_settings(settings: RunSettings, other_keys: set[str]) -> None:
    """Raise an error if a run has settings of another protocol (``other_keys``), or a federated one lacks its own."""
    federated = is_federated(settings)
    for name in sorted(settings.keys() - (ALLOWED_KEYS if federated else other_keys)):
        if federated:
            allowed = ", ".join(sorted(ALLOWED_KEYS))
            raise UsageError(f"{name} is not a setting of federated runs.", f"Allowed: {allowed}.")
        raise UsageError(f"{name} is a setting of federated runs.", 'Add protocol = "federated".')
    if not federated:
        return
    check_choice("bound", bound_of(settings), BOUNDS)
    for name in ("clients", "ways", "shots"):
        check_count(f"{name} of a federated run", settings.get(name))


def describe_run(settings: RunSettings) -> str:
    """Return a run as one line of text."""
    plan, bound = Plan.from_settings(settings), bound_of(settings)
    variant = plan.algorithm if bound == "federated" else f"{bound} bound"
    if bound == "federated" and plan.compression != "none":
        variant += f" {plan.compression}"
    return (
        f"{settings['dataset']} {quantity(settings['clients'], 'client')} {quantity(settings['shots'], 'shot')} "
        f"{settings['method']} {variant} seed {settings['seed']}"
    )
