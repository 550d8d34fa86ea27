"""The paper's bounds: clients that never speak to each other, and a centre that has all images.

Lower: each client fine-tunes alone; its own classifier is the personal bound, and the ψ averaged once the global one.
Upper: fine-tuning on everything; the personal bound is the global classifier with the client's classes only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ..errors import UsageError
from ..seeding import make_generator
from ..training.finetune.episodic import finetune
from .client_population import ClientPopulation
from .parameters import read, write

Watch = Callable[[int, int], None]


def lower(population: ClientPopulation, steps: int, watch: Watch = lambda *_: None) -> dict[str, Any]:
    """Independent local training; ψ averaged once, weighted by examples."""
    _only_gaussian(population)
    personal, total, weight = [], np.zeros(len(population.start)), 0
    for index in range(len(population)):
        write(population.model, population.start)
        client = population.client(index)
        plan = population.plan.with_choices(steps=steps, decay_every=0, algorithm="fedavg")
        if len(client.examples.classes) > 1:
            client.train(plan, 1)
        total += len(client.examples) * read(population.model)
        weight += len(client.examples)
        own = torch.isin(population.test_labels, torch.unique(population.labels[population.rows(index)]))
        tried = population.test.pick(torch.nonzero(own).flatten())
        population.model.build_head(client.features(), client.examples.labels)
        predicted = population.model.head.logits(tried.features()).argmax(1)
        place = {population.classes.index(name): c for c, name in enumerate(client.examples.classes)}
        truth = torch.tensor([place[c] for c in population.test_labels[own].tolist()])
        personal.append(float((predicted == truth).double().mean()))
        watch(index + 1, len(population))
    averaged = (total / weight).astype(population.start.dtype)
    return {
        "accuracy": population.evaluate(averaged)["accuracy"],
        "personalized": float(np.mean(personal)),
        "clients_accuracy": personal,
    }


def upper(population: ClientPopulation, steps: int) -> dict[str, Any]:
    """Central training on the images of all clients."""
    _only_gaussian(population)
    plan = population.plan
    write(population.model, population.start)
    settings = plan.training.override(steps=steps).resolve(population.model.backbone, len(population.labels))
    seed = make_generator(plan.seed, "centre").initial_seed()
    finetune(
        population.model,
        population.pool.pixels,
        population.labels,
        settings,
        seed=seed,
        embed=population.pool,
    )
    pool, tried = population.pool.features(), population.test.features()
    logits = population.global_logits(pool, tried)
    personal = population.restricted(logits)
    return {
        "accuracy": population.accuracy(logits),
        "personalized": float(np.mean(personal)),
        "clients_accuracy": personal,
    }


def _only_gaussian(population: ClientPopulation) -> None:
    if population.plan.head == "linear":
        raise UsageError("The bounds are those of FiT: a linear head has none here.", "Leave bound out.")
