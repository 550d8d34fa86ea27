"""What a federated client's step adds to fine-tuning: FedProx's pull, weight decay, kept activations, a head to go on from."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from filmtransfer.training.baselines.batch import Constant
from filmtransfer.training.finetune.gradient import StepResult
from filmtransfer.training.finetune.loop import run_steps


def slope(parameter: nn.Parameter, gradient: float):
    """A loss that is a straight line."""

    def backward() -> StepResult:
        (gradient * parameter).sum().backward()
        return StepResult(0.0, 0.0, 1)

    return backward


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fedprox_adds_the_gradient_of_its_penalty(dtype):
    """θ ← θ − η (g + μ (θ − θ₀)): by hand, for three steps of plain descent."""
    rate, mu, gradient, expected = 0.1, 0.7, 2.0, 5.0
    parameter = nn.Parameter(torch.tensor([5.0], dtype=dtype))
    optimiser = torch.optim.SGD([parameter], lr=rate)
    run_steps(slope(parameter, gradient), [parameter], optimiser, 3, pull=mu)
    for _ in range(3):
        expected -= rate * (gradient + mu * (expected - 5.0))
    assert parameter.item() == pytest.approx(expected, rel=1e-6 if dtype == torch.float32 else 1e-14)


def test_without_pull_it_is_the_loop_as_before():
    parameter = nn.Parameter(torch.tensor([5.0]))
    run_steps(slope(parameter, 2.0), [parameter], torch.optim.SGD([parameter], lr=0.1), 3)
    assert parameter.item() == pytest.approx(5.0 - 3 * 0.1 * 2.0)


def test_a_constant_rate_is_constant_sgd():
    rule = Constant(steps=10, learning_rate=0.003)
    assert {rule.rate(step) for step in range(10)} == {0.003}
    (group,) = rule.optimiser([nn.Parameter(torch.zeros(1))]).param_groups
    assert (group["lr"], group["momentum"], group["weight_decay"]) == (0.003, 0.9, 0.0)
    assert rule.zero_head
    assert rule.mixup == 0
