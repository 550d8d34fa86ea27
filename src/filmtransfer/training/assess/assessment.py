"""How good a classifier is, told without a test set; and how sure it may be.

Images are left out of the head one by one (leave_out.py). Those that fine-tuning has seen would flatter it, so the
estimate counts only those that it has not, and its interval says how few they are. From the same logits comes the
temperature T of the probabilities, softmax(logits / T + log prior): the one that makes the right classes of the left-out
images most probable, under equal priors (a prior says how often classes come, not how sure the features are),

    min_T  Σ_n −log p_T(y_n | x_n) + ρ(log T / σ)        ρ(u) = log(1 + u²) for u > 0,  u² / 2 for u < 0

ρ keeps it near 1 where there are few images to tell. Mistakes that were made with certainty speak clearly, and there it lets go:
the paper's ProtoNets need T far above 1. That a few images were all right says little, and asks for T = 0
(docs/log.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...heads import GaussianHead
from ...model.ood import FEWEST, Unknown
from .evaluation import Evaluation, evaluate
from .leave_one_out import LeftOut, leave_out

SPREAD = 0.2  # σ, chosen on eight sets (docs/log.md)
COLDEST, HOTTEST = 0.02, 1e5


@dataclass(frozen=True)
class Judgement:
    """What left-out images say of a classifier."""

    left: LeftOut  # all images that could be left out, seen or not
    used: LeftOut  # those the numbers below come from
    unseen: bool  # whether those were images that fine-tuning had not seen
    estimate: Evaluation
    temperature: float
    log_loss: tuple[float, float]  # before and after the temperature
    unknown: Unknown | None

    def results(self) -> dict[str, Any]:
        """What the update file keeps of it."""
        return {
            "accuracy": round(self.estimate.accuracy, 4),
            "low": round(self.estimate.low, 4),
            "high": round(self.estimate.high, 4),
            "images": self.estimate.images,
            "unseen": self.unseen,
            "log_loss": [round(loss, 4) for loss in self.log_loss],
        }


def judge(
    head: GaussianHead, features: Tensor, labels: Tensor, unseen: Tensor, log_prior: Tensor, *, seed: int
) -> Judgement | None:
    """Judge a head by its support images; none if no class has an image to spare."""
    left = leave_out(head, features, labels, seed=seed)
    if len(left.index) == 0:
        return None
    honest = left.of(unseen.cpu())
    used = honest if len(honest.index) >= FEWEST else left
    truths, classes = labels.cpu()[used.index], left.logits.shape[1]
    prior = log_prior.cpu()
    chosen = temperature(used.logits, truths)
    before, after = used.logits + prior, used.logits / chosen + prior
    unknown = Unknown.of(features, labels, used.cosines, used.logits) if len(used.index) >= FEWEST else None
    return Judgement(
        left,
        used,
        used is honest,
        evaluate(after.argmax(1), truths, classes),
        chosen,
        (log_loss(before, truths), log_loss(after, truths)),
        unknown,
    )


def temperature(logits: Tensor, labels: Tensor) -> float:
    """T by a coarse look at all of the range, then golden section in the lowest valley."""
    logits = logits.double()

    def loss(log: float) -> float:
        return len(labels) * log_loss(logits / math.exp(log), labels) + _doubt(log / SPREAD)

    points = torch.linspace(math.log(COLDEST), math.log(HOTTEST), 65).tolist()
    lowest = min(range(1, 64), key=lambda i: loss(points[i]))
    low, high = points[lowest - 1], points[lowest + 1]
    ratio = (math.sqrt(5) - 1) / 2
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    at_a, at_b = loss(a), loss(b)
    while high - low > 1e-4:
        if at_a <= at_b:
            high, b, at_b = b, a, at_a
            a = high - ratio * (high - low)
            at_a = loss(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + ratio * (high - low)
            at_b = loss(b)
    return round(math.exp((low + high) / 2), 4)


def _doubt(u: float) -> float:
    """ρ: a Cauchy prior above T = 1, a Gaussian one below."""
    return math.log1p(u * u) if u > 0 else u * u / 2


def log_loss(logits: Tensor, labels: Tensor) -> float:
    """The mean of −log p(right class)."""
    return float(torch.nn.functional.cross_entropy(logits, labels))


def calibration_error(probabilities: Tensor, labels: Tensor, bins: int = 15) -> float:
    """ECE: the mean gap between how sure the answers were and how many were right, over equal-width bins."""
    sure, said = probabilities.max(1)
    right = (said == labels).double()
    place = (sure * bins).long().clamp(max=bins - 1)
    gaps = [
        abs(float(right[place == b].mean() - sure[place == b].mean())) * int((place == b).sum())
        for b in place.unique().tolist()
    ]
    return sum(gaps) / len(labels)
