"""Linear: the ordinary last layer, logit_c = w_cᵀ z + b_c.

``configure`` solves the L2-penalised logistic regression on the support features, a convex problem
with one answer (the FineTuner baseline); batch training then moves the same numbers together with
FiLM (the BiT-FiLM baseline).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import torch
from torch import Tensor, nn

from .gaussian import GaussianHead, State, check_support


class Linear(GaussianHead):
    """C(D+1) numbers, all of them learned."""

    name = "linear"

    def __init__(self, penalty: float = 1.0, max_iterations: int = 500) -> None:
        super().__init__()
        self.penalty = penalty
        self.max_iterations = max_iterations

    def build(self, features: Tensor, labels: Tensor) -> State:
        """Minimise  Σ_n −log p(y_n | z_n) + penalty/2 · ‖W‖²  (scikit-learn's C = 1/penalty)."""
        classes = check_support(features, labels)
        z = features.detach().cpu().double()  # small enough for any CPU; not every GPU has float64
        mean = z.mean(0)
        centred = z - mean
        weight = torch.zeros(classes, z.shape[1], dtype=z.dtype, device=z.device, requires_grad=True)
        bias = torch.zeros(classes, dtype=z.dtype, device=z.device, requires_grad=True)
        solver = torch.optim.LBFGS(
            [weight, bias],
            max_iter=self.max_iterations,
            tolerance_grad=1e-9,
            tolerance_change=1e-12,
            history_size=20,
            line_search_fn="strong_wolfe",
        )

        def loss() -> Tensor:
            solver.zero_grad()
            value: Tensor = nn.functional.cross_entropy(centred @ weight.mT + bias, labels, reduction="sum")
            value = value + self.penalty / 2 * (weight * weight).sum()
            value.backward()
            return value

        with torch.enable_grad():
            solver.step(loss)
        weight, bias = weight.detach(), bias.detach()
        return weight.to(features), (bias - weight @ mean).to(features)

    def evaluate(self, state: State, query: Tensor) -> Tensor:
        weight, bias = state
        return query @ weight.mT + bias

    def compact(self) -> dict[str, Tensor]:
        weight, bias = self.configured()
        return {"weight": weight, "bias": bias}

    def restore(self, tensors: Mapping[str, Tensor], counts: Tensor) -> Self:
        self.state = (tensors["weight"], tensors["bias"])
        self.take(counts)
        return self

    @staticmethod
    def updateable(classes: int, features: int) -> int:
        return classes * (features + 1)
