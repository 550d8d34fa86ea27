"""ProtoNets: the squared distance to the class means, logit_c = −‖z − μ_c‖² / τ (Snell et al., 2017).

The same as the Gaussian head with Σ = τ/2 · I: no covariance, nothing to train but FiLM. The paper has τ = 1. Where a
backbone's features are far apart (hundreds, on efficientnet_lite0), the softmax is saturated from the first step, and
fine-tuning learns from the few mistakes only. A higher temperature τ changes no prediction, but it does change what is
learned (docs/log.md).
"""

from __future__ import annotations

import math

from ..arrays import Array, is_tensor, precise, to_numpy
from ..errors import UsageError
from .head import State
from .means import MeansHead
from .scores import AffineScores, Scores


class ProtoNets(MeansHead):
    """Prototypical networks: class means only, C·D parameters."""

    name = "protonets"
    description = "ProtoNets: nearest class mean"

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        if not isinstance(temperature, int | float) or not 0 < temperature < math.inf:
            raise UsageError(f"The temperature cannot be {temperature!r}.", "It is a number above 0.")
        self.temperature = float(temperature)

    def evaluate(self, state: State, query: Array) -> Array:
        """Compute −‖z − μ_c‖² / τ."""
        (means,) = state
        # Shifting both by one mean changes no distance and keeps the squares small.
        centre = means.mean(0)
        centre = centre.detach() if is_tensor(centre) else centre
        z, mu = query - centre, means - centre
        return (2 * z @ mu.mT - (mu * mu).sum(1) - (z * z).sum(1)[:, None]) / self.temperature

    def options(self) -> dict[str, object]:
        """Return the temperature where it is not the paper's."""
        return {} if self.temperature == 1 else {"temperature": self.temperature}

    def scores(self) -> Scores:
        """Return r_c = (2 μ_c·z − ‖μ_c‖²) / τ, s = −‖z‖² / τ about the mean of the class means."""
        means = precise(to_numpy(self.configured()[0]))
        centre = means.mean(0)
        means, scale = means - centre, 1 / self.temperature
        return AffineScores(2 * scale * means, -scale * (means * means).sum(1), centre, scale)
