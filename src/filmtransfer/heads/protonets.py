"""ProtoNets: the squared distance to the class means, logit_c = −‖z − μ_c‖².

The same as the Gaussian head with Σ = I/2. No covariance, nothing to learn but FiLM.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from torch import Tensor

from .gaussian import GaussianHead, State, check_support, memberships
from .statistics import Statistics


class ProtoNets(GaussianHead):
    """Class means only: C·D numbers."""

    name = "protonets"

    def build(self, features: Tensor, labels: Tensor) -> State:
        classes = check_support(features, labels)
        return (memberships(labels, classes, features).mT @ features,)

    def evaluate(self, state: State, query: Tensor) -> Tensor:
        (means,) = state
        # Shifting both by one mean changes no distance and keeps the squares small.
        centre = means.mean(0).detach()
        z, mu = query - centre, means - centre
        return 2 * z @ mu.mT - (mu * mu).sum(1) - (z * z).sum(1, keepdim=True)

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
