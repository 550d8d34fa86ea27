"""The optimisers without torch._dynamo take the steps of torch's, bit for bit."""

from __future__ import annotations

import pytest
import torch

from filmtransfer import optimisers


def trained(kind: type[torch.optim.Optimizer], **options: float) -> tuple[torch.Tensor, list[float]]:
    parameter = torch.nn.Parameter(torch.linspace(-1, 1, 7))
    optimiser = kind([parameter], lr=0.1, **options)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 0.9**step)
    steps = []
    optimiser.register_step_post_hook(lambda *_: steps.append(float(parameter.detach().sum())))
    for _ in range(5):
        optimiser.zero_grad()
        (parameter**4).sum().backward()
        optimiser.step()
        schedule.step()
    return parameter.detach(), steps


@pytest.mark.parametrize(
    ("name", "options"), [("SGD", {"momentum": 0.9}), ("Adam", {"weight_decay": 0.01}), ("AdamW", {})]
)
def test_the_steps_are_those_of_torch(name, options):
    (expected, steps), (actual, own_steps) = (
        trained(getattr(module, name), **options) for module in (torch.optim, optimisers)
    )
    assert torch.equal(actual, expected)
    assert own_steps == steps
    assert len(steps) == 5


def test_lbfgs_and_its_closure():
    def minimum(kind: type[torch.optim.Optimizer]) -> torch.Tensor:
        parameter = torch.nn.Parameter(torch.ones(3))
        solver = kind([parameter], line_search_fn="strong_wolfe")

        def closure() -> torch.Tensor:
            solver.zero_grad()
            loss = ((parameter - torch.arange(3)) ** 4).sum()
            loss.backward()
            return loss

        solver.step(closure)
        return parameter.detach()

    assert torch.equal(minimum(optimisers.without_dynamo(torch.optim.LBFGS)), minimum(torch.optim.LBFGS))
