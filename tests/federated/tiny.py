"""A small federation of drawings on the real backbone, at a size that takes a second."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from filmtransfer.data import LabelledImages
from filmtransfer.data.sample import sample_drawings
from filmtransfer.errors import InputError
from filmtransfer.federated.client import Client, Examples
from filmtransfer.federated.client_population import ClientPopulation, SimulationConfig
from filmtransfer.federated.grid import InProcessGrid
from filmtransfer.federated.parameters import make_model
from filmtransfer.federated.plan import Plan
from filmtransfer.federated.server import FederatedServer

PLAN = Plan().override(
    rounds=2, clients_per_round=3, steps=2, split="auto", image_size=32, film_from=5, support_size=20, max_query=20,
    learning_rate=0.01, evaluate_every=0,
)  # fmt: skip
ALL = replace(PLAN, rounds=1, clients_per_round=4)
CONFIG = SimulationConfig("sample", clients=4, ways=3, shots=3, test_images=60)


def read_images(dataset: str, root: str) -> tuple[LabelledImages, LabelledImages]:
    """Return the drawings that come with the package."""
    assert (dataset, root) == ("sample", "")
    return sample_drawings(40, 0)


@lru_cache(maxsize=4)
def population(plan: Plan = PLAN, config: SimulationConfig = CONFIG) -> ClientPopulation:
    """Return the clients of a plan; tests share them, as only ψ changes."""
    return ClientPopulation(config, plan, read_images)


def unequal(clients: ClientPopulation) -> ClientPopulation:
    """Remove images, so that the clients have different numbers of them."""
    parts = []
    for index, own in enumerate(clients.partition.clients):
        labels = clients.partition.labels[own]
        keep = np.concatenate([own[labels == c][: 3 - index % 2] for c in np.unique(labels)])
        parts.append(keep[: len(keep) - (1 if index == 0 else 0)])
    clients.partition.clients[:] = parts
    return clients


def with_failing_clients(
    clients: ClientPopulation, indices: Collection[int], reason: str, on_try: Callable[[], object] = int
) -> Callable[[int], Client]:
    """Return the clients by index; those of ``indices`` cannot train, for this reason."""

    def train(*_: object) -> None:
        on_try()
        raise InputError(reason)

    def client(i: int) -> Client:
        instance = clients.client(i)
        if i in indices:
            instance.train = train
        return instance

    return client


def with_test_images(clients: ClientPopulation, tests: Mapping[int, int]) -> Callable[[int], Client]:
    """Return the clients by index; ``tests`` are the numbers of test images of those that have some."""

    def client(i: int) -> Client:
        instance = clients.client(i)
        if tests.get(i):
            rows = clients.test_rows(i)[: tests[i]]
            names = instance.examples.classes
            labels = [names.index(clients.classes[c]) for c in clients.test_labels[rows].tolist()]
            instance.test = Examples(clients.test.select(rows), torch.tensor(labels), names)
        return instance

    return client


def make_server(
    clients: ClientPopulation,
    folder: Path | None = None,
    client: Callable[[int], Client] | None = None,
    state: bool = False,
    **options: Any,
) -> FederatedServer:
    """Return the server of a simulated federation; ``client`` may return faulty clients instead."""
    plan = clients.plan
    clients.state = folder / "clients" if folder and state else None
    return FederatedServer(
        InProcessGrid(len(clients), client or clients.client),
        plan,
        lambda classes: make_model(plan, classes, backbone=clients.model.backbone),
        folder=folder,
        evaluate_fn=clients.evaluate,
        **options,
    )
