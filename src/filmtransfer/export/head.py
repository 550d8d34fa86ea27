"""The head of a classifier as a traceable module, prior and temperature included."""

from __future__ import annotations

from torch import Tensor, nn

from ..heads import Scores
from ..model import Predictor, log_posterior


class HeadGraph(nn.Module):
    """Features (B, D) → probabilities (B, C) and logits (B, C)."""

    log_prior: Tensor

    def __init__(self, scores: Scores, log_prior: Tensor, temperature: float) -> None:
        super().__init__()
        self.scores = scores
        self.register_buffer("log_prior", log_prior.float())
        self.temperature = float(temperature)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Compute probabilities and logits."""
        relative, shared = self.scores(features)
        return log_posterior(relative, self.log_prior, self.temperature).exp(), relative + shared


def head_graph(predictor: Predictor) -> HeadGraph:
    """Return the module of a predictor; its head has to be configured."""
    return HeadGraph(predictor.head.scores(), predictor.log_prior.cpu(), predictor.temperature).eval()
