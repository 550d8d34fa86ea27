"""Episodic fine-tuning (paper: FiT Training): the loop.

Each step samples a task τ, builds the head from its support images and takes one Adam step on the
mean negative log-likelihood of its query images, in ψ and e.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from ..episodes import choose_split, episodes, trainable
from ..model import AdaptedModel
from .gradient import NonFiniteError, accumulate
from .presets import Settings

Stop = Literal["done", "interrupted", "time limit", "not finite", "one-shot"]


@dataclass(frozen=True)
class Progress:
    """What a progress bar shows after a step."""

    step: int
    steps: int
    loss: float
    accuracy: float
    seconds_left: float


@dataclass
class History:
    """How a run went."""

    stopped: Stop = "done"
    steps: int = 0
    seconds: float = 0.0
    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)


Watch = Callable[[Progress], None]
AfterStep = Callable[[int], None]


def finetune(
    model: AdaptedModel,
    pixels: Tensor,
    labels: Tensor,
    settings: Settings,
    *,
    seed: int,
    watch: Watch | None = None,
    after_step: AfterStep | None = None,
    time_limit: float | None = None,
) -> History:
    """Move the model's ψ and e; the head is left to be configured from all images afterwards.

    Ctrl-C, the time limit and a loss that is not finite end the run after the last whole step.
    """
    history = History()
    if not trainable(labels):
        history.stopped = "one-shot"
        return history
    split = choose_split(settings.split, len(labels))
    tasks = episodes(labels, split, settings.support_size, seed, settings.max_query)
    learned = model.learned()
    optimiser = torch.optim.Adam(learned, lr=settings.learning_rate)
    good = [parameter.detach().clone() for parameter in learned]
    start = time.monotonic()
    try:
        for step in range(1, settings.steps + 1):
            optimiser.zero_grad()
            result = accumulate(
                lambda i: model.embed(pixels[i]), model.head, next(tasks), settings.micro_batch
            )
            optimiser.step()
            good = [parameter.detach().clone() for parameter in learned]
            history.steps = step
            history.losses.append(result.loss)
            history.accuracies.append(result.accuracy)
            spent = time.monotonic() - start
            if watch:
                left = spent / step * (settings.steps - step)
                watch(Progress(step, settings.steps, result.loss, result.accuracy, left))
            if after_step:
                after_step(step)
            if time_limit is not None and spent + spent / step > time_limit:
                history.stopped = "time limit"
                break
    except KeyboardInterrupt:
        history.stopped = "interrupted"
    except NonFiniteError:
        history.stopped = "not finite"
    with torch.no_grad():
        for parameter, value in zip(learned, good, strict=True):
            parameter.copy_(value)
    optimiser.zero_grad()
    history.seconds = time.monotonic() - start
    return history
