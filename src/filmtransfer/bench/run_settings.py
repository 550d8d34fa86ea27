"""Check the values of a run's settings before a sweep begins; whether the data are there is seen by the run itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..errors import UsageError, check_choice, check_count
from ..federated.plan import Plan
from ..heads import make_head
from ..model.hardware_names import check_hardware_names
from ..model.predictor import log_prior
from ..training.config import names, settings
from ..training.validation import check_seed, training_config
from .rows import RunSettings

PROTOCOLS = ("few-shot", "vtab", "federated")
DATA_SPLITS = {"few-shot": ("official", "random"), "vtab": ("official", "random", "released")}


def check_run_settings(run: RunSettings) -> None:
    """Raise a UsageError for the first value that no run of this protocol can have."""
    protocol = run.get("protocol", "few-shot")
    check_choice("The protocol", protocol, PROTOCOLS)
    if protocol == "federated":
        Plan.from_settings(run)
        return
    head, options = str(run.get("head", "lda")), run.get("head_options") or {}
    if not isinstance(options, Mapping):
        raise UsageError(f"head_options cannot be {options!r}.", "It is a table of names and values.")
    make_head(head, **options)
    training_config(str(run.get("preset", "fast")), head, {k: run[k] for k in names() if k in run})
    if isinstance(prior := run.get("prior", "uniform"), str):
        log_prior(prior, [1, 1])  # type: ignore[arg-type]  # it checks the name
    check_hardware_names(str(run.get("device", "auto")), str(run.get("precision", "float32")))
    check_choice("data_split", run.get("data_split", "official"), DATA_SPLITS[protocol])
    check_seed(run.get("seed", 0))
    check_count("test_images", run.get("test_images", 0), minimum=0)
    check_shots(run.get("shots", "all"))
    if run.get("curve"):
        check_curve(run["curve"])


def check_training_settings(chosen: Mapping[str, object], sweep: Collection[str]) -> None:
    """Check training settings of the command line, also those that a method replaces; those of a sweep may be lists."""
    for declared in settings():
        if declared.name in chosen:
            value = chosen[declared.name]
            for one in value if isinstance(value, list) and declared.name in sweep else [value]:
                declared.check(one)


def check_shots(shots: object) -> None:
    """Raise a UsageError for what is no number of images per class."""
    if shots != "all" and (not isinstance(shots, int) or isinstance(shots, bool) or shots < 1):
        raise UsageError(f"shots cannot be {shots!r}.", "It is a whole number of at least 1, or 'all'.")


def check_curve(steps: object) -> None:
    """Raise a UsageError for what is no list of steps in ascending order."""
    valid = isinstance(steps, list) and all(type(step) is int and step >= 0 for step in steps)
    if not valid or steps != sorted(set(steps)):  # type: ignore[call-overload]  # a list, if it is valid
        raise UsageError(f"curve cannot be {steps!r}.", "It is a list of steps in ascending order.")
