"""What a federated client adds to training: FedProx's proximal term, and SGD from the head of the model."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from filmtransfer.training.baselines.batch import ConstantSchedule
from filmtransfer.training.finetune.gradient import StepResult
from filmtransfer.training.finetune.loop import run_steps, with_proximal_term


def slope(parameter: nn.Parameter, gradient: float):
    """Return the backward pass of a linear loss."""

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
    backward = with_proximal_term(slope(parameter, gradient), [parameter], mu)
    run_steps(backward, [parameter], optimiser, 3)
    for _ in range(3):
        expected -= rate * (gradient + mu * (expected - 5.0))
    assert parameter.item() == pytest.approx(expected, rel=1e-6 if dtype == torch.float32 else 1e-14)


def test_without_a_proximal_term_it_is_plain_descent():
    parameter = nn.Parameter(torch.tensor([5.0]))
    backward = slope(parameter, 2.0)
    assert with_proximal_term(backward, [parameter], 0.0) is backward
    run_steps(backward, [parameter], torch.optim.SGD([parameter], lr=0.1), 3)
    assert parameter.item() == pytest.approx(5.0 - 3 * 0.1 * 2.0)


def test_the_constant_rule_is_sgd_with_momentum():
    rule = ConstantSchedule(steps=10, learning_rate=0.003)
    assert {rule.learning_rate_at(step) for step in range(10)} == {0.003}
    (group,) = rule.optimiser([nn.Parameter(torch.zeros(1))]).param_groups
    assert (group["lr"], group["momentum"], group["weight_decay"]) == (0.003, 0.9, 0.0)
    assert rule.initial_head == "current"
    assert rule.mixup == 0
