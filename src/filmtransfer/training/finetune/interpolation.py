"""How far to go: all the way, half-way or not at all, by images that ψ has not seen.

Fine-tuning on few images can leave a user worse off than the frozen backbone. Half-way back to the start
keeps most of what is gained and gives up most of what is overfitted, so that is the rule; but on a task far
from the backbone's own the whole way is better, and now and then none of it. So a quarter of each class is
held out of the episodes, and the points 0, ½ and 1 of the straight way from the start to the end of
fine-tuning are compared on it: the head is built from the other images, and the score is the mean
probability of the right class. (Accuracy on a few images has too many ties, log-likelihood hangs on the one
worst image.) Half-way is left only for a point that is clearly better. The head that is delivered is then
built from all images.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ...heads import SingularError
from ...model import AdaptedModel, log_posterior
from ...seeding import permutation
from .activations import Activations

SHARES = (0.0, 0.5, 1.0)
WITHOUT_ESTIMATE = 0.5
SMALLEST = 4  # a class with fewer images gives none of them away

Snapshot = list[Tensor]


@dataclass(frozen=True)
class Choice:
    """The share of the way that was taken, the scores it was chosen by, and the features there."""

    share: float
    scores: dict[float, float]
    features: Tensor


def hold_out(labels: Tensor, share: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Indices to fine-tune on, and indices to choose by (none of them from classes under 4 images)."""
    held = torch.zeros(len(labels), dtype=torch.bool)
    if share > 0:
        for c in torch.unique(labels).tolist():
            members = torch.nonzero(labels == c).flatten()
            if len(members) >= SMALLEST:
                count = max(1, round(share * len(members)))
                held[members[permutation(len(members), generator)[:count]]] = True
    return torch.nonzero(~held).flatten(), torch.nonzero(held).flatten()


def snapshot(model: AdaptedModel) -> Snapshot:
    """A copy of everything that fine-tuning moves."""
    return [parameter.detach().clone() for parameter in model.trainable_parameters()]


@torch.no_grad()
def interpolate(model: AdaptedModel, start: Snapshot, end: Snapshot, share: float) -> None:
    """Set the model to start + share · (end − start); 0 and 1 are exactly the ends."""
    for parameter, a, b in zip(model.trainable_parameters(), start, end, strict=True):
        parameter.copy_(a if share == 0 else b if share == 1 else torch.lerp(a, b, share))


@torch.no_grad()
def choose(
    model: AdaptedModel,
    start: Snapshot,
    end: Snapshot,
    images: Activations,
    labels: Tensor,
    kept: Tensor,
    held: Tensor,
) -> Choice:
    """Leave the model at the point of the way that the held-out images speak for, and say why."""
    scores: dict[float, Tensor] = {}
    features: dict[float, Tensor] = {}
    for share in SHARES:
        interpolate(model, start, end, share)
        features[share] = images.features()
        scores[share] = _right(model, features[share], labels, kept, held)
    best = decide(scores)
    interpolate(model, start, end, best)
    return Choice(best, {share: float(score.mean()) for share, score in scores.items()}, features[best])


def decide(scores: dict[float, Tensor]) -> float:
    """Half-way, unless another point is ahead of it by more than one standard error.

    The images are the same at every point, so it is the error of the paired differences.
    """
    evidence = {}
    for share, score in scores.items():
        ahead = score - scores[WITHOUT_ESTIMATE]
        error = float(ahead.std()) / math.sqrt(len(ahead)) if len(ahead) > 1 else math.inf
        evidence[share] = float(ahead.mean()) - error
    best = max(scores, key=lambda share: evidence[share])
    return best if evidence[best] > 0 else WITHOUT_ESTIMATE


def _right(model: AdaptedModel, features: Tensor, labels: Tensor, kept: Tensor, held: Tensor) -> Tensor:
    """The probability of the right class of each held-out image; −1 where it cannot be told."""
    try:
        head = model.head.configure(features[kept], labels[kept])
    except SingularError:
        return torch.full((len(held),), -1.0, dtype=torch.float64)
    column = torch.searchsorted(head.classes, labels[held])
    posterior = log_posterior(head.logits(features[held])).exp().cpu()
    right = posterior.gather(1, column[:, None])[:, 0].double()
    return torch.where(right.isfinite(), right, -1.0)
