"""One federated run of a recipe: a simulated federation, or its lower or upper bound."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from ..data import LabelledImages
from ..data.sample import sample_drawings
from ..errors import invalid_choice
from ..federated.bounds import lower, upper
from ..federated.checkpoint import Checkpoint
from ..federated.client_population import ClientPopulation, SimulationConfig
from ..federated.plan import from_settings
from ..federated.simulation import simulate
from .datasets import load_dataset
from .federations import BOUNDS

SAMPLE = "sample"  # the drawings that come with the package
SENT = ("parameters", "bytes")


def read_images(dataset: str, root: str) -> tuple[LabelledImages, LabelledImages]:
    """Return the training and the test images of a data set."""
    if dataset == SAMPLE:
        return sample_drawings(40, 0)
    found = load_dataset(dataset, root)
    train, test = (
        LabelledImages(part.sources, part.labels.tolist(), list(found.classes))  # type: ignore[arg-type]
        for part in (found.train, found.test)
    )
    return train, test


def run(settings: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """One run of a benchmark: a federation, or one of its bounds."""
    bound = str(settings.get("bound", "federated"))
    if bound not in BOUNDS:
        raise invalid_choice("The bound", bound, BOUNDS)
    names = {field.name for field in fields(SimulationConfig)}
    scene = SimulationConfig(**{**{k: v for k, v in settings.items() if k in names}, "root": str(root)})
    plan = from_settings(settings)
    began = time.monotonic()
    if bound != "federated":
        population = ClientPopulation(scene, plan, read_images)
        steps = int(settings.get("bound_steps", plan.training.steps))
        if bound == "lower":
            found = lower(population, steps)
        else:
            found = upper(population, int(settings.get("bound_steps_upper", steps)))
        return found | _about(population, began)
    outcome = simulate(scene, plan, read_images)
    rounds = outcome.state.rounds
    last = next(line for line in reversed([outcome.state.began, *rounds]) if "accuracy" in line)
    curve = curve_of(outcome.state)
    sent = {
        what: sum(int(line[f"{what}_{way}"]) for line in rounds for way in ("down", "up")) for what in SENT
    }
    return {
        **{k: last[k] for k in ("accuracy", "personalized", "clients_accuracy") if k in last},
        "curve": curve,
        "parameters_per_round": sent["parameters"] // max(len(rounds), 1),
        "parameters": sent["parameters"],
        "bytes_up": sum(int(line["bytes_up"]) for line in rounds),
        "bytes_down": sum(int(line["bytes_down"]) for line in rounds),
        **_about(outcome.population, began),
    }


def curve_of(state: Checkpoint) -> list[dict[str, Any]]:
    """Accuracy by round, with what had been sent until then, both ways."""
    curve: list[dict[str, Any]] = []
    sent = dict.fromkeys(SENT, 0)
    for line in [state.began, *state.rounds]:
        for what in SENT:
            sent[what] += int(line.get(f"{what}_down", 0)) + int(line.get(f"{what}_up", 0))
        if "accuracy" in line:
            measured: dict[str, Any] = {k: line[k] for k in ("accuracy", "personalized") if k in line}
            curve.append({"round": line["round"], **measured, **sent})
    return curve


def _about(population: ClientPopulation, began: float) -> dict[str, Any]:
    return {
        "updateable": int(np.size(population.start)),
        "images": int(sum(len(own) for own in population.partition.clients)),
        "test_images": len(population.test_labels),
        "seconds": round(time.monotonic() - began, 1),
        "partition": population.partition.describe(),
        "notes": [],
    }
