"""A small federation of drawings on the real backbone, at a size that takes a second."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from filmtransfer.data import LabelledImages
from filmtransfer.data.sample import sample_drawings
from filmtransfer.federated.client import Client
from filmtransfer.federated.client_population import ClientPopulation, SimulationConfig
from filmtransfer.federated.grid import InProcessGrid
from filmtransfer.federated.parameters import make_model
from filmtransfer.federated.plan import Plan
from filmtransfer.federated.server import FederatedServer

PLAN = Plan().with_choices(
    rounds=2, clients_per_round=3, steps=2, split="auto", image_size=32, film_from=5, support_size=20, max_query=20,
    learning_rate=0.01, evaluate_every=0,
)  # fmt: skip
SCENE = SimulationConfig("sample", clients=4, ways=3, shots=3, test_images=60)


def read_images(dataset: str, root: str) -> tuple[LabelledImages, LabelledImages]:
    """Return the drawings that come with the package."""
    assert (dataset, root) == ("sample", "")
    return sample_drawings(40, 0)


@lru_cache(maxsize=4)
def population(plan: Plan = PLAN, scene: SimulationConfig = SCENE) -> ClientPopulation:
    """Kept between tests: only ψ moves in it."""
    return ClientPopulation(scene, plan, read_images)


def unequal(found: ClientPopulation) -> ClientPopulation:
    """The same clients with different numbers of images: 2, 1 and none left out of each class, in turn."""
    parts = []
    for index, own in enumerate(found.partition.clients):
        labels = found.partition.labels[own]
        keep = np.concatenate([own[labels == c][: 3 - index % 2] for c in np.unique(labels)])
        parts.append(keep[: len(keep) - (1 if index == 0 else 0)])
    found.partition.clients[:] = parts
    return found


def server(
    found: ClientPopulation,
    folder: Path | None = None,
    client: Callable[[int], Client] | None = None,
    state: bool = False,
    **more: Any,
) -> FederatedServer:
    """The server of a simulated federation, in this process; ``client`` may stand in for the honest ones."""
    plan = found.plan
    found.state = folder / "clients" if folder and state else None
    return FederatedServer(
        InProcessGrid(len(found), client or found.client),
        plan,
        lambda classes: make_model(plan, classes, backbone=found.model.backbone),
        folder=folder,
        evaluate=found.evaluate,
        **more,
    )
