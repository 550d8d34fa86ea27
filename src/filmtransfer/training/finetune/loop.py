"""The training loop: optimiser steps, progress, and early ends that lose nothing.

Ctrl-C, the time limit and a loss that is not finite end it; the parameters that remain had a finite loss.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ...heads import SingularError
from ..callbacks import NO_CALLBACKS, Callbacks, Progress
from ..torch_settings import denormals_as_zero
from .gradient import NonFiniteError, StepResult
from .outcome import Stop
from .parallel import World, between_steps

Backward = Callable[[], StepResult]


@dataclass
class History:
    """The course of a run."""

    stopped: Stop = "done"
    steps: int = 0
    seconds: float = 0.0
    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    not_finite: list[int] = field(default_factory=list)  # indices of the images that ended it, if images did


@denormals_as_zero()
def run_steps(
    backward: Backward,
    parameters: list[nn.Parameter],
    optimiser: torch.optim.Optimizer,
    steps: int,
    *,
    time_limit: float | None = None,
    schedule: torch.optim.lr_scheduler.LRScheduler | None = None,
    world: World | None = None,
    callbacks: Callbacks = NO_CALLBACKS,
) -> History:
    """Take ``steps`` steps; ``backward`` adds this process's part of the gradient to the ``parameters``."""
    history = History()
    world = world or World()
    finite, finite_steps = _copy(parameters), 0
    start = time.monotonic()
    try:
        with between_steps(world) as interruptible:
            for step in range(1, steps + 1):
                optimiser.zero_grad()
                result = backward()
                world.add_gradients(parameters)
                if not (math.isfinite(result.loss) and _all_finite(p.grad for p in parameters)):
                    raise NonFiniteError
                finite, finite_steps = _copy(parameters), step - 1  # these have a finite loss
                optimiser.step()
                if schedule is not None:
                    schedule.step()
                callbacks.profiler.end_phase("optimiser")
                history.steps = step
                history.losses.append(result.loss)
                history.accuracies.append(result.accuracy)
                spent = time.monotonic() - start
                if callbacks.on_step is not None:
                    left = spent / step * (steps - step)
                    callbacks.on_step(Progress(step, steps, result.loss, result.accuracy, left))
                if time_limit is not None and step < steps and world.any(spent + spent / step > time_limit):
                    history.stopped = "time limit"
                    break
                interruptible()
        if not _all_finite(parameters):
            raise NonFiniteError
    except KeyboardInterrupt:
        history.stopped = "interrupted"
    except (NonFiniteError, SingularError) as error:  # a covariance that is not finite has no inverse
        history.stopped = "not finite"
        history.not_finite = getattr(error, "images", [])
    if history.stopped in ("interrupted", "not finite"):  # perhaps in the middle of a step
        with torch.no_grad():
            for parameter, value in zip(parameters, finite, strict=True):
                parameter.copy_(value)
        history.steps = finite_steps
    optimiser.zero_grad()
    history.seconds = time.monotonic() - start
    return history


def with_proximal_term(backward: Backward, parameters: list[nn.Parameter], mu: float) -> Backward:
    """Add the gradient of FedProx's μ/2 · ‖ψ − ψ₀‖² to that of ``backward``; ψ₀ are the parameters now."""
    if mu == 0:
        return backward
    start = _copy(parameters)

    def proximal() -> StepResult:
        result = backward()
        with torch.no_grad():
            for parameter, initial in zip(parameters, start, strict=True):
                if parameter.grad is not None:
                    parameter.grad.add_(parameter - initial, alpha=mu)
        return result

    return proximal


def _copy(parameters: list[nn.Parameter]) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in parameters]


def _all_finite(tensors: Iterable[Tensor | None]) -> bool:
    return all(t is None or bool(torch.isfinite(t).all()) for t in tensors)
