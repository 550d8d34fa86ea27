"""Why this class: how far each class is, and which support photos are nearest.

Distances are Mahalanobis's under the head's own covariance: Σ = e₂·Σ_task + e₃·I for LDA and QDA (without the classes'
own parts, so that photos of different classes can be compared), and plain ones for ProtoNets and the linear head.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..heads import GaussianHead, lowrank
from ..heads.gaussian import divide_by, memberships
from . import Support


@dataclass(frozen=True)
class Explanation:
    """For one image: distance to each class's mean, and the nearest support photos."""

    distances: list[float]  # (C)
    nearest: list[tuple[int, float]]  # (place among the support images, distance), nearest first


@torch.no_grad()
def explain(head: GaussianHead, support: Support, features: Tensor, photos: int = 3) -> list[Explanation]:
    """Explanations of query features (B, D)."""
    z, queries = support.features.double(), features.cpu().double()
    means = memberships(support.labels, int(support.labels.max()) + 1, z).mT @ z
    to_means = _distances(head, z, queries, means)
    to_photos = _distances(head, z, queries, z)
    near = to_photos.topk(min(photos, len(z)), largest=False)
    return [
        Explanation(row.tolist(), list(zip(index.tolist(), values.tolist(), strict=True)))
        for row, index, values in zip(to_means, near.indices, near.values, strict=True)
    ]


def _distances(head: GaussianHead, support: Tensor, queries: Tensor, targets: Tensor) -> Tensor:
    """√((q − t)ᵀ Σ⁻¹ (q − t)) (B, T) for all queries and targets, by Woodbury's identity."""
    mean = support.mean(0)
    q, t, x = queries - mean, targets - mean, support - mean
    squared = _squares(q, t)
    weights = getattr(head, "weights", None)
    if weights is not None:
        *_, task, ridge = weights.values().detach().cpu().double()
        scale = task / divide_by(len(x), head.divisor)  # type: ignore[arg-type]
        cholesky = lowrank.factor(x @ x.mT, scale, ridge)
        inner_q, inner_t = (lowrank.within(cholesky, x @ rows.mT)[0].mT for rows in (q, t))
        squared = (squared - scale * _squares(inner_q, inner_t)) / ridge
    return squared.clamp(min=0).sqrt()


def _squares(a: Tensor, b: Tensor) -> Tensor:
    return (a * a).sum(1, keepdim=True) - 2 * a @ b.mT + (b * b).sum(1)
