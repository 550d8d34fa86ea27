"""What heads with logits w_cᵀ z + b_c share: LDA and the linear head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Self

from ..arrays import Array
from .head import Head, Shapes, State
from .scores import AffineScores, Scores


class Affine(NamedTuple):
    """The state of an affine head."""

    weight: Array  # (C, D)
    bias: Array  # (C)


class AffineHead(Head):
    """A head of C(D+1) parameters: logit_c = w_cᵀ z + b_c."""

    def evaluate(self, state: State, query: Array) -> Array:
        """Compute W z + b."""
        weight, bias = state
        return query @ weight.mT + bias

    def tensors(self) -> dict[str, Array]:
        """Return W and b."""
        weight, bias = self.configured()
        return {"weight": weight, "bias": bias}

    def restore(self, tensors: Mapping[str, Array], counts: Array) -> Self:
        """Configure the head from W and b."""
        return self.set_state(Affine(tensors["weight"], tensors["bias"]), counts)

    @classmethod
    def stored_shapes(cls, classes: int, features: int, examples: int) -> list[Shapes]:
        """Return the shapes of W and b."""
        del examples
        return [{"weight": (classes, features), "bias": (classes,)}]

    def scores(self) -> Scores:
        """Return W z + b as a module."""
        weight, bias = self.configured()
        return AffineScores(weight, bias)
