"""The loop itself, whatever a step is: Adam, progress, and ends that lose nothing.

Ctrl-C, the time limit and a loss that is not finite end it; what remains are numbers whose loss was seen
to be finite.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import nn

from ...heads import SingularError
from ..torch_settings import denormals_as_zero
from .gradient import Mark, NonFiniteError, StepResult, unmarked
from .parallel import World, between_steps

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
    not_finite: list[int] = field(default_factory=list)  # the images that ended it, if it was images


Watch = Callable[[Progress], None]


@denormals_as_zero()
def run_steps(
    backward: Callable[[], StepResult],
    learned: list[nn.Parameter],
    optimiser: torch.optim.Optimizer,
    steps: int,
    *,
    watch: Watch | None = None,
    time_limit: float | None = None,
    schedule: torch.optim.lr_scheduler.LRScheduler | None = None,
    world: World | None = None,
    mark: Mark = unmarked,
    pull: float = 0.0,
) -> History:
    """Take ``steps`` steps; ``backward`` adds this process's part of the gradient to ``learned``.

    ``pull`` is FedProx's μ: μ/2 · ‖ψ − ψ₀‖² is added to the loss, with ψ₀ where the loop began.
    """
    history = History()
    world = world or World()
    good, good_steps = _copy(learned), 0
    begin = good
    start = time.monotonic()
    try:
        with between_steps(world) as interruptible:
            for step in range(1, steps + 1):
                optimiser.zero_grad()
                result = backward()
                world.add_gradients(learned)
                if pull:
                    _pull_back(learned, begin, pull)
                if not (math.isfinite(result.loss) and _finite([p.grad for p in learned])):
                    raise NonFiniteError
                good, good_steps = _copy(learned), step - 1  # these numbers have a finite loss
                optimiser.step()
                if schedule is not None:
                    schedule.step()
                mark("optimiser")
                history.steps = step
                history.losses.append(result.loss)
                history.accuracies.append(result.accuracy)
                spent = time.monotonic() - start
                if watch:
                    watch(Progress(step, steps, result.loss, result.accuracy, spent / step * (steps - step)))
                if time_limit is not None and step < steps and world.any(spent + spent / step > time_limit):
                    history.stopped = "time limit"
                    break
                interruptible()
        if not _finite(learned):
            raise NonFiniteError
    except KeyboardInterrupt:
        history.stopped = "interrupted"
    except (NonFiniteError, SingularError) as error:  # a covariance of such numbers has no inverse
        history.stopped = "not finite"
        history.not_finite = getattr(error, "images", [])
    if history.stopped in ("interrupted", "not finite"):  # perhaps in the middle of a step
        with torch.no_grad():
            for parameter, value in zip(learned, good, strict=True):
                parameter.copy_(value)
        history.steps = good_steps
    optimiser.zero_grad()
    history.seconds = time.monotonic() - start
    return history


@torch.no_grad()
def _pull_back(learned: list[nn.Parameter], begin: list[torch.Tensor], pull: float) -> None:
    for parameter, start in zip(learned, begin, strict=True):
        if parameter.grad is not None:
            parameter.grad.add_(parameter - start, alpha=pull)


def _copy(learned: list[nn.Parameter]) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in learned]


def _finite(tensors: list[torch.Tensor | None] | list[nn.Parameter]) -> bool:
    return all(t is None or bool(torch.isfinite(t).all()) for t in tensors)
