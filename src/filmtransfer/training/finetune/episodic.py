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
from ..config import TrainingConfig
from ..profiler import Profile
from .activations import Activations
from .gradient import StepResult, accumulate
from .loop import History, Watch, run_steps
from .parallel import World


def finetune(
    model: AdaptedModel,
    pixels: Tensor,
    labels: Tensor,
    config: TrainingConfig,
    *,
    seed: int,
    watch: Watch | None = None,
    profile: Profile | None = None,
    embed: Callable[[Tensor], Tensor] | None = None,
    tasks: Iterator[Episode] | None = None,
    pull: float = 0.0,
) -> History:
    """Move the model's ψ and e; the head is left to be built from all images afterwards.

    ``embed`` are activations of these images that somebody has kept, or something else that gives the features of
    what ``labels`` belong to (clips); ``tasks`` are episodes of one's own; ``pull`` is FedProx's μ.
    """
    if len(torch.unique(labels)) < 2:
        raise InputError(
            "All images are of one class.", "An episode needs two classes to tell from each other."
        )
    if not has_query_images(labels):
        return History(stopped="one-shot")
    if tasks is None:
        split = choose_split(config.split, len(labels))
        tasks = episodes(labels, split, config.support_size, seed, config.max_query)
    drawn = tasks
    learned, world = model.trainable_parameters(), World.current()
    optimiser = torch.optim.Adam(learned, lr=config.learning_rate, weight_decay=config.weight_decay)
    profile = profile or Profile()
    if embed is None:
        with profile.phase("activations below FiLM, once"):
            embed = Activations(model, pixels, config.cache_mb)
    features = embed

    def backward() -> StepResult:
        with profile.step():
            return accumulate(
                features, model.head, next(drawn), config.micro_batch, world=world, mark=profile.mark
            )

    return run_steps(
        backward,
        learned,
        optimiser,
        config.steps or 0,
        watch=watch,
        time_limit=config.time_limit,
        world=world,
        mark=profile.mark,
        pull=pull,
    )
