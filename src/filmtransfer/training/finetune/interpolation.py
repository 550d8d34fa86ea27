"""The interpolation factor α: the model is ψ(α) = ψ_start + α (ψ_end − ψ_start), with α = 0, ½ or 1.

Fine-tuning on few images can be worse than the frozen backbone. α = ½ keeps most of the gain and removes most of the
overfitting, so that is the default; but on a task far from the pretraining data α = 1 is better, and sometimes α = 0.
So a part of each class (``hold_out``) is held out of the episodes, and the three models are compared on it: the head is built
from the other images, and the score is the mean probability of the correct class. (Accuracy on a few images has too
many ties, and the log-likelihood depends on the single worst image.) Another α than ½ has to be clearly better. The
final head is then built from all images.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ...heads import SingularError
from ...model import AdaptedModel, log_posterior
from .activations import Activations
from .outcome import DEFAULT_ALPHA

ALPHAS = (0.0, 0.5, 1.0)

Snapshot = list[Tensor]


@dataclass(frozen=True)
class Choice:
    """The chosen interpolation factor, the score of each, and the features under the chosen one."""

    alpha: float
    scores: dict[float, float]
    features: Tensor


def snapshot(model: AdaptedModel) -> Snapshot:
    """Return a copy of all trainable parameters."""
    return [parameter.detach().clone() for parameter in model.trainable_parameters()]


@torch.no_grad()
def interpolate(model: AdaptedModel, start: Snapshot, end: Snapshot, alpha: float) -> None:
    """Set the parameters to start + α (end − start); α = 0 and 1 are exactly the ends."""
    for parameter, a, b in zip(model.trainable_parameters(), start, end, strict=True):
        parameter.copy_(a if alpha == 0 else b if alpha == 1 else torch.lerp(a, b, alpha))


@torch.no_grad()
def choose_alpha(
    model: AdaptedModel,
    start: Snapshot,
    end: Snapshot,
    images: Activations,
    labels: Tensor,
    fit: Tensor,
    held_out: Tensor,
) -> Choice:
    """Set the model to the interpolation that the held-out images support, and return the scores."""
    scores: dict[float, Tensor] = {}
    features: dict[float, Tensor] = {}
    for alpha in ALPHAS:
        interpolate(model, start, end, alpha)
        features[alpha] = images.features()
        scores[alpha] = _scores(model, features[alpha], labels, fit, held_out)
    best = best_alpha(scores)
    interpolate(model, start, end, best)
    return Choice(best, {alpha: float(score.mean()) for alpha, score in scores.items()}, features[best])


def best_alpha(scores: dict[float, Tensor]) -> float:
    """Return ½, unless another α is better by more than one standard error.

    The images are the same for every α, so it is the standard error of the paired differences.
    """
    evidence = {}
    for alpha, score in scores.items():
        gain = score - scores[DEFAULT_ALPHA]
        error = float(gain.std()) / math.sqrt(len(gain)) if len(gain) > 1 else math.inf
        evidence[alpha] = float(gain.mean()) - error
    best = max(scores, key=lambda alpha: evidence[alpha])
    return best if evidence[best] > 0 else DEFAULT_ALPHA


def _scores(model: AdaptedModel, features: Tensor, labels: Tensor, fit: Tensor, held_out: Tensor) -> Tensor:
    """Return the probability of the correct class of each held-out image; −1 where there is none."""
    try:
        head = model.head.configure(features[fit], labels[fit])
    except SingularError:
        return torch.full((len(held_out),), -1.0, dtype=torch.float64)
    column = torch.searchsorted(head.classes, labels[held_out])
    posterior = log_posterior(head.logits(features[held_out])).exp().cpu()
    correct = posterior.gather(1, column[:, None])[:, 0].double()
    return torch.where(correct.isfinite(), correct, -1.0)
