"""How far to go: all the way, half-way or not at all, by images that ψ has not seen.

Fine-tuning on few images can leave a user worse off than the frozen backbone. So a quarter of each
class is held out of the episodes, and the points 0, ½ and 1 of the straight way from the start to the
end of fine-tuning are compared on it: the head is built from the other images, and the score is the
mean probability of the right class. (Accuracy on a few images has too many ties, log-likelihood hangs
on the one worst image.) The head that is delivered is then built from all images.

Half-way alone keeps most of what is gained and gives up most of what is overfitted; it is what is used
where classes are too small to hold anything out.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..model import AdaptedModel
from ..seeding import permutation

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


def hold_out(labels: Tensor, share: float, stream: torch.Generator) -> tuple[Tensor, Tensor]:
    """Indices to fine-tune on, and indices to choose by (none of them from classes under 4 images)."""
    held = torch.zeros(len(labels), dtype=torch.bool)
    if share > 0:
        for c in torch.unique(labels).tolist():
            members = torch.nonzero(labels == c).flatten()
            if len(members) >= SMALLEST:
                count = max(1, round(share * len(members)))
                held[members[permutation(len(members), stream)[:count]]] = True
    return torch.nonzero(~held).flatten(), torch.nonzero(held).flatten()


def snapshot(model: AdaptedModel) -> Snapshot:
    """A copy of everything that fine-tuning moves."""
    return [parameter.detach().clone() for parameter in model.learned()]


@torch.no_grad()
def interpolate(model: AdaptedModel, start: Snapshot, end: Snapshot, share: float) -> None:
    """Set the model to start + share · (end − start); 0 and 1 are exactly the ends."""
    for parameter, a, b in zip(model.learned(), start, end, strict=True):
        parameter.copy_(a if share == 0 else b if share == 1 else torch.lerp(a, b, share))


@torch.no_grad()
def choose(
    model: AdaptedModel,
    start: Snapshot,
    end: Snapshot,
    pixels: Tensor,
    labels: Tensor,
    kept: Tensor,
    held: Tensor,
) -> Choice:
    """Leave the model at the best of ``SHARES`` (of equals the shortest way), and say why."""
    found: dict[float, tuple[float, Tensor]] = {}
    for share in SHARES:
        interpolate(model, start, end, share)
        features = model.features(pixels)
        head = model.head.configure(features[kept], labels[kept])
        right = head.probabilities(features[held]).gather(1, labels[held][:, None])
        found[share] = (float(right.double().mean()), features)
    best = max(SHARES, key=lambda share: (found[share][0], -share))
    interpolate(model, start, end, best)
    return Choice(best, {share: score for share, (score, _) in found.items()}, found[best][1])
