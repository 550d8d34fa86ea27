"""The paper's bounds of federated learning: clients that train alone, and central training on all images.

Lower bound: each client fine-tunes alone; its own classifier is the personalized bound, and ψ averaged once gives the
global one. Upper bound: fine-tuning on all images; the personalized bound is the global classifier restricted to the
client's classes.
"""

from __future__ import annotations

import numpy as np

from ..errors import UsageError
from ..seeding import make_generator
from ..training.finetune.episodic import finetune
from .client_population import ClientPopulation, evaluation
from .parameters import get_parameters, set_parameters
from .records import RoundRecord


def lower_bound(population: ClientPopulation, steps: int) -> RoundRecord:
    """Train each client alone, and average ψ once, weighted by examples."""
    _check_episodes(population)
    personal, total, weight = [], np.zeros(len(population.start)), 0
    for index in range(len(population)):
        set_parameters(population.model, population.start)
        client = population.client(index)
        plan = population.plan.override(steps=steps, decay_every=0, algorithm="fedavg")
        if len(client.examples.classes) > 1:
            client.train(plan, 1)
        total += len(client.examples) * get_parameters(population.model)
        weight += len(client.examples)
        if len(rows := population.test_rows(index)):
            test = population.test.select(rows).features()
            personal.append(population.personalized_accuracy(index, client.features(), test))
    averaged = (total / weight).astype(population.start.dtype)
    return evaluation(population.evaluate(averaged)["accuracy"], personal)


def upper_bound(population: ClientPopulation, steps: int) -> RoundRecord:
    """Train centrally on the images of all clients."""
    _check_episodes(population)
    plan = population.plan
    set_parameters(population.model, population.start)
    training = plan.training.override(steps=steps).resolve(population.model.backbone, len(population.labels))
    seed = make_generator(plan.seed, "centre").initial_seed()
    finetune(population.model, population.pool, population.labels, training, seed=seed)
    logits = population.global_logits(population.pool.features(), population.test.features())
    return evaluation(population.accuracy(logits), population.restricted_accuracy(logits))


def _check_episodes(population: ClientPopulation) -> None:
    if population.plan.trained_by == "batches":
        raise UsageError(
            f"There are no bounds for the {population.plan.head} head.", "Choose a head trained by episodes."
        )
