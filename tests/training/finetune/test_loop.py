"""Ends that lose nothing: interrupts, limits, and losses that are no longer numbers."""

from __future__ import annotations

import pytest
import torch

from filmtransfer.heads import SingularError
from filmtransfer.training.callbacks import Callbacks
from filmtransfer.training.finetune.gradient import StepResult
from filmtransfer.training.finetune.loop import run_steps


def problem(fail_at: int = 0, failure=None, poison: float = 0.0):
    x = torch.nn.Parameter(torch.tensor([4.0]))
    seen = []

    def backward() -> StepResult:
        seen.append(float(x.detach()))
        if failure is not None and len(seen) == fail_at:
            raise failure
        loss = (x * x).sum()
        if poison and len(seen) == fail_at:
            loss = loss * poison
        loss.backward()
        return StepResult(float(loss.detach()), 1.0, 1)

    return x, seen, backward


def run(x, backward, steps=10, **options):
    return run_steps(backward, [x], torch.optim.SGD([x], lr=0.1), steps, **options)


def test_it_takes_its_steps_and_tells():
    x, _, backward = problem()
    told = []
    history = run(x, backward, callbacks=Callbacks(on_step=told.append))
    assert (history.stopped, history.steps, len(history.losses)) == ("done", 10, 10)
    assert float(x.detach()) == pytest.approx(4 * 0.8**10)
    assert [p.step for p in told] == list(range(1, 11))
    assert told[-1].seconds_left == 0
    assert x.grad is None


@pytest.mark.parametrize(
    ("failure", "poison", "stopped"),
    [
        (KeyboardInterrupt(), 0.0, "interrupted"),
        (SingularError("no inverse"), 0.0, "not finite"),
        (None, float("nan"), "not finite"),
        (None, float("inf"), "not finite"),
    ],
)
def test_it_returns_to_parameters_whose_loss_was_finite(failure, poison, stopped):
    x, seen, backward = problem(5, failure, poison)
    history = run(x, backward)
    assert history.stopped == stopped
    assert history.steps == 3, "the numbers before the last whole step, whose loss was seen"
    assert float(x.detach()) == seen[3]


def test_an_interrupt_in_the_middle_of_a_step_keeps_the_last_complete_step():
    x, seen, backward = problem()

    class Halfway(torch.optim.SGD):
        def step(self, closure=None):
            if len(seen) == 4:
                x.data.fill_(99.0)
                raise KeyboardInterrupt
            return super().step(closure)

    history = run_steps(backward, [x], Halfway([x], lr=0.1), 10)
    assert history.stopped == "interrupted"
    assert float(x.detach()) == seen[3]
    assert history.steps == 3


def test_a_last_step_into_nowhere_is_taken_back():
    x, seen, backward = problem()
    history = run_steps(backward, [x], torch.optim.SGD([x], lr=1e38), 1)
    assert history.stopped == "not finite"
    assert float(x.detach()) == seen[0] == 4.0


def test_the_time_limit_ends_it():
    x, _, backward = problem()
    history = run(x, backward, steps=10**9, time_limit=0.2)
    assert history.stopped == "time limit"
    assert history.steps >= 1
