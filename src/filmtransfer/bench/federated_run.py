"""One federated run of a recipe: a simulated federation, or its lower or upper bound."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TypedDict

import numpy as np

from ..data import LabelledImages
from ..data.sample import sample_drawings
from ..errors import check_choice
from ..federated.bounds import lower_bound, upper_bound
from ..federated.checkpoint import Checkpoint
from ..federated.client_population import ClientPopulation, SimulationConfig
from ..federated.plan import Plan
from ..federated.simulation import simulate
from .datasets import load_dataset
from .federated_settings import BOUNDS, bound_of, bound_steps

SAMPLE = "sample"  # the drawings that come with the package


class CurvePoint(TypedDict, total=False):
    """Accuracy after a round, and the total communication until then."""

    round: int
    accuracy: float
    personalized: float
    parameters: int
    bytes: int


def read_images(dataset: str, root: str) -> tuple[LabelledImages, LabelledImages]:
    """Return the training and the test images of a data set."""
    if dataset == SAMPLE:
        return sample_drawings(40, 0)
    data = load_dataset(dataset, root)
    train, test = (
        LabelledImages(part.sources, part.labels.tolist(), list(data.classes))  # type: ignore[arg-type]
        for part in (data.train, data.test)
    )
    return train, test


def run(settings: Mapping[str, object], root: Path) -> dict[str, object]:
    """Run a federation or one of its bounds, and return its results."""
    bound = bound_of(settings)
    check_choice("The bound", bound, BOUNDS)
    names = {field.name for field in fields(SimulationConfig)}
    chosen: dict[str, object] = {name: value for name, value in settings.items() if name in names}
    config = SimulationConfig(**{**chosen, "root": str(root)})  # type: ignore[arg-type]
    plan = Plan.from_settings(settings)
    start = time.monotonic()
    if bound != "federated":
        population = ClientPopulation(config, plan, read_images)
        steps = bound_steps(settings)
        train = lower_bound if bound == "lower" else upper_bound
        return {
            **train(population, plan.training.steps or 0 if steps is None else steps),
            **_summary(population, start),
        }
    result = simulate(config, plan, read_images)
    rounds = result.state.rounds
    last = next(record for record in reversed([result.state.initial, *rounds]) if "accuracy" in record)
    parameters = sum(record["parameters_down"] + record["parameters_up"] for record in rounds)
    return {
        **{name: last.get(name) for name in ("accuracy", "personalized", "clients_accuracy") if name in last},
        "curve": communication_curve(result.state),
        "parameters_per_round": parameters // max(len(rounds), 1),
        "parameters": parameters,
        "bytes_up": sum(record["bytes_up"] for record in rounds),
        "bytes_down": sum(record["bytes_down"] for record in rounds),
        **_summary(result.population, start),
    }


def communication_curve(state: Checkpoint) -> list[CurvePoint]:
    """Return the accuracy by round with the total communication until then, in both directions."""
    curve: list[CurvePoint] = []
    parameters = sent = 0
    for record in [state.initial, *state.rounds]:
        parameters += record.get("parameters_down", 0) + record.get("parameters_up", 0)
        sent += record.get("bytes_down", 0) + record.get("bytes_up", 0)
        if "accuracy" in record:
            point: CurvePoint = {"round": record["round"], "accuracy": record["accuracy"]}
            if "personalized" in record:
                point["personalized"] = record["personalized"]
            curve.append({**point, "parameters": parameters, "bytes": sent})
    return curve


def _summary(population: ClientPopulation, start: float) -> dict[str, object]:
    return {
        "updateable": int(np.size(population.start)),
        "images": int(sum(len(own) for own in population.partition.clients)),
        "test_images": len(population.test_labels),
        "seconds": round(time.monotonic() - start, 1),
        "partition": population.partition.describe(),
        "notes": [],
    }
