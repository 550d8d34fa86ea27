"""Episodic fine-tuning (paper: FiT Training).

Each step samples a task τ, builds the head from its support images and takes one Adam step on the
mean negative log-likelihood of its query images, in ψ and e.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from ...episodes import Episode, choose_split, episodes, has_query_images
from ...errors import InputError
from ...model import AdaptedModel
from ...optimisers import Adam
from ..callbacks import NO_CALLBACKS, Callbacks
from ..config import TrainingConfig
from .gradient import StepResult, accumulate
from .loop import History, run_steps, with_proximal_term
from .parallel import World


def finetune(
    model: AdaptedModel,
    embed: Callable[[Tensor], Tensor],
    labels: Tensor,
    config: TrainingConfig,
    *,
    seed: int,
    tasks: Iterator[Episode] | None = None,
    proximal_mu: float = 0.0,
    callbacks: Callbacks = NO_CALLBACKS,
) -> History:
    """Train ψ and e; the head is left to be built from all images afterwards.

    ``embed`` maps indices of ``labels`` to features: ``Activations`` of images, or ``Clips``. ``tasks`` replaces
    the episodes of the config, and ``proximal_mu`` is FedProx's μ.
    """
    if len(torch.unique(labels)) < 2:
        raise InputError("All images are of one class.", "An episode needs at least two classes.")
    if not has_query_images(labels):
        return History(stopped="one-shot")
    split = choose_split(config.split, len(labels))
    drawn = tasks or episodes(labels, split, config.support_size, seed, config.max_query)
    parameters, world, profiler = model.trainable_parameters(), World.current(), callbacks.profiler
    optimiser = Adam(parameters, lr=config.learning_rate, weight_decay=config.weight_decay)

    def backward() -> StepResult:
        with profiler.step():
            task = next(drawn)
            return accumulate(embed, model.head, task, config.micro_batch, world=world, profiler=profiler)

    return run_steps(
        with_proximal_term(backward, parameters, proximal_mu),
        parameters,
        optimiser,
        config.steps or 0,
        time_limit=config.time_limit,
        world=world,
        callbacks=callbacks,
    )
