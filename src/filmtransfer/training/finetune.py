"""Episodic fine-tuning (paper: FiT Training).

Each step samples a task τ, builds the head from its support images and takes one Adam step on the
mean negative log-likelihood of its query images, in ψ and e.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..episodes import choose_split, episodes, trainable
from ..model import AdaptedModel
from .gradient import StepResult, accumulate
from .loop import History, Watch, run_steps
from .presets import Settings


def finetune(
    model: AdaptedModel,
    pixels: Tensor,
    labels: Tensor,
    settings: Settings,
    *,
    seed: int,
    watch: Watch | None = None,
    time_limit: float | None = None,
) -> History:
    """Move the model's ψ and e; the head is left to be built from all images afterwards."""
    if not trainable(labels):
        return History(stopped="one-shot")
    split = choose_split(settings.split, len(labels))
    tasks = episodes(labels, split, settings.support_size, seed, settings.max_query)
    learned = model.learned()
    optimiser = torch.optim.Adam(learned, lr=settings.learning_rate)

    def backward() -> StepResult:
        return accumulate(lambda i: model.embed(pixels[i]), model.head, next(tasks), settings.micro_batch)

    return run_steps(backward, learned, optimiser, settings.steps, watch=watch, time_limit=time_limit)
