"""ProtoNets: the squared distance to the class means, logit_c = −‖z − μ_c‖² / τ.

The same as the Gaussian head with Σ = τ/2 · I. No covariance, nothing to learn but FiLM. The paper has τ = 1; where a
backbone's features are far apart (hundreds, on efficientnet_lite0) that is certainty from the first step on, and
fine-tuning learns from the few mistakes only. A higher temperature τ changes no prediction, and what is learned a lot
(docs/log.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

from torch import Tensor

from ..errors import InputError
from .gaussian import GaussianHead, State, check_support, memberships
from .statistics import Statistics


class ProtoNets(GaussianHead):
    """Class means only: C·D numbers."""

    name = "protonets"

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        if not 0 < temperature < math.inf:
            raise InputError(f"The temperature cannot be {temperature}.", "It is a number above 0.")
        self.temperature = float(temperature)

    def options(self) -> dict[str, Any]:
        return {} if self.temperature == 1 else {"temperature": self.temperature}

    def build(self, features: Tensor, labels: Tensor) -> State:
        classes = check_support(features, labels)
        return (memberships(labels, classes, features).mT @ features,)

    def evaluate(self, state: State, query: Tensor) -> Tensor:
        (means,) = state
        # Shifting both by one mean changes no distance and keeps the squares small.
        centre = means.mean(0).detach()
        z, mu = query - centre, means - centre
        return (2 * z @ mu.mT - (mu * mu).sum(1) - (z * z).sum(1, keepdim=True)) / self.temperature

    def compact(self) -> dict[str, Tensor]:
        return {"means": self.configured()[0]}

    def restore(self, tensors: Mapping[str, Tensor], counts: Tensor) -> Self:
        self.state = (tensors["means"],)
        self.take(counts)
        return self

    @staticmethod
    def updateable(classes: int, features: int) -> int:
        return classes * features

    def configure_from(self, statistics: Statistics) -> Self:
        """Build the head from summed statistics instead of features."""
        return self.adopt((statistics.means(),), statistics)
