"""Linear: the ordinary last layer, logit_c = w_cᵀ z + b_c.

``configure`` solves the L2-penalised logistic regression on the support features, a convex problem with one
solution (the FineTuner baseline); batch training then updates the same parameters together with FiLM (the BiT-FiLM
baseline).
"""

from __future__ import annotations

import math
from typing import Self

from ..arrays import Array, like, to_tensor, zeros
from ..errors import UsageError, check_count
from .affine import Affine, AffineHead
from .head import State, check_support

ITERATIONS = 500
QUICK_ITERATIONS = 30  # close enough for a learning curve


class Linear(AffineHead):
    """Logistic regression: C(D+1) trainable parameters."""

    name = "linear"
    description = "linear: logistic regression"
    trained_by = "batches"
    closed_form = False

    def __init__(self, penalty: float = 1.0, max_iterations: int = ITERATIONS) -> None:
        super().__init__()
        if not isinstance(penalty, int | float) or not 0 <= penalty < math.inf:
            raise UsageError(f"The penalty cannot be {penalty!r}.", "It is a number of at least 0.")
        self.penalty = float(penalty)
        check_count("max_iterations", max_iterations)
        self.max_iterations = max_iterations

    def build(self, features: Array, labels: Array) -> State:
        """Minimise  Σ_n −log p(y_n | z_n) + penalty/2 · ‖W‖²  (scikit-learn's C = 1/penalty)."""
        import torch

        classes = check_support(features, labels)
        z = to_tensor(features).detach().cpu().double()  # small enough for any CPU; not every GPU has float64
        targets = to_tensor(labels).long()
        mean = z.mean(0)
        centred = z - mean
        weight = torch.zeros(classes, z.shape[1], dtype=z.dtype, requires_grad=True)
        bias = torch.zeros(classes, dtype=z.dtype, requires_grad=True)
        solver = torch.optim.LBFGS(
            [weight, bias],
            max_iter=self.max_iterations,
            tolerance_grad=1e-9,
            tolerance_change=1e-12,
            history_size=20,
            line_search_fn="strong_wolfe",
        )

        def loss() -> Array:
            solver.zero_grad()
            value = torch.nn.functional.cross_entropy(centred @ weight.mT + bias, targets, reduction="sum")
            value = value + self.penalty / 2 * (weight * weight).sum()
            value.backward()
            return value

        with torch.enable_grad():
            solver.step(loss)
        weight, bias = weight.detach(), bias.detach()
        return Affine(like(weight, features), like(bias - weight @ mean, features))

    def zeros(self, counts: Array, like: Array) -> Self:
        """Configure the head with zeros (C, D) of the kind of ``like`` (D): where batch training from scratch begins."""
        weight = zeros((len(counts), len(like)), like)
        return self.set_state(Affine(weight, zeros((len(counts),), like)), counts)

    def approximate(self) -> Self:
        """Return an unconfigured copy whose solver stops early."""
        quick = self.unconfigured()
        quick.max_iterations = QUICK_ITERATIONS
        return quick

    def options(self) -> dict[str, object]:
        """Return the penalty and the number of iterations where they are not the default."""
        options: dict[str, object] = {} if self.penalty == 1 else {"penalty": self.penalty}
        return options | (
            {} if self.max_iterations == ITERATIONS else {"max_iterations": self.max_iterations}
        )
