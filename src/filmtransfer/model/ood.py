"""Images of none of the classes: told by the direction of their features and by the head's own density.

    s(z) = ( max_c cos(z, μ_c) − m₁ ) / s₁  +  ( max_c logit_c(z) − m₂ ) / s₂

A stranger's features point elsewhere (lengths are left out on purpose: they say how contrasty an image is), and no
class explains them much better than the background of all images does: for LDA the largest logit is half of
Mahalanobis's distance to that background less that to the class. The first tells strangers of another kind, the second those of
the same kind (docs/trust.md has the figures of both). m and s are mean and spread over support images, each scored by classes
built without it; from the same images comes the threshold at a stated false-alarm rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import InputError, UpdateFileError, UsageError
from ..heads.gaussian import memberships

FEWEST = 3  # scores, below which no spread can be told


@dataclass(frozen=True)
class Unknown:
    """The classes' directions, and how near to the classes images of theirs came that were not among them."""

    directions: Tensor  # (C, D), int8 of any length: the rounding is a hundredth of the spread of the scores
    known: Tensor  # (n, 2): the largest cosine and the largest logit of left-out images

    @classmethod
    def of(cls, features: Tensor, labels: Tensor, cosines: Tensor, logits: Tensor) -> Unknown:
        """From support features (N, D), labels in 0 … C−1, and the cosines (n) and logits (n, C) of left-out images."""
        found = directions(features, labels).cpu()
        longest = found.abs().max(1, keepdim=True).values.clamp(min=torch.finfo(found.dtype).tiny)
        known = torch.stack([cosines.cpu().double(), logits.cpu().double().max(1).values], 1)
        return cls((127 * found / longest).round().to(torch.int8), known.float())

    def scores(self, features: Tensor, logits: Tensor) -> Tensor:
        """s(z) (B), of features (B, D) and the head's own logits (B, C): the lower, the stranger."""
        cosines = nearness(F.normalize(self.directions.to(features), dim=1), features)
        return self._weigh(torch.stack([cosines.double(), logits.double().max(1).values], 1))

    def known_scores(self) -> Tensor:
        """s of the left-out images (n), ascending."""
        return torch.sort(self._weigh(self.known.double())).values

    def _weigh(self, pairs: Tensor) -> Tensor:
        known = self.known.double().to(pairs.device)
        return ((pairs - known.mean(0)) / known.std(0).clamp(min=1e-6)).sum(1)

    def threshold(self, false_alarm: float) -> float:
        """The score below which a share ``false_alarm`` of images of known classes is expected.

        The empirical quantile (with the +1 that makes it exact for exchangeable images) where there are images
        enough for it; else the bound that Student's distribution gives for one more image.
        """
        if not 0 < false_alarm < 0.5:
            raise UsageError(f"The false-alarm rate cannot be {false_alarm}.", "It lies between 0 and 0.5.")
        count = len(self.known)
        if count < FEWEST:
            raise InputError(
                "There are too few photos to tell what is unknown.", "Give each class at least three."
            )
        place = math.floor(false_alarm * (count + 1))
        scores = self.known_scores()
        if place >= FEWEST:
            return float(scores[place - 1])
        spread = float(scores.std()) * math.sqrt(1 + 1 / count)
        return float(scores.mean()) - student_quantile(1 - false_alarm, count - 1) * spread

    def fits(self, classes: int, features: int) -> bool:
        return (
            tuple(self.directions.shape) == (classes, features)
            and self.directions.dtype == torch.int8
            and self.known.ndim == 2
            and self.known.shape[1] == 2
            and self.known.dtype == torch.float32
        )

    def tensors(self) -> dict[str, Tensor]:
        return {"directions": self.directions, "known": self.known}

    @classmethod
    def read(cls, tensors: dict[str, Tensor]) -> Unknown:
        if tensors.keys() != {"directions", "known"}:
            raise UpdateFileError("what tells unknown images is not whole.", "Train it again.")
        return cls(tensors["directions"], tensors["known"])


def directions(features: Tensor, labels: Tensor) -> Tensor:
    """μ_c / ‖μ_c‖ (C, D)."""
    share = memberships(labels, int(labels.max()) + 1, features)
    return F.normalize(share.mT @ features, dim=1)


def nearness(towards: Tensor, features: Tensor) -> Tensor:
    return (F.normalize(features, dim=1) @ towards.mT).max(1).values


def student_quantile(share: float, degrees: int) -> float:
    """The quantile of Student's distribution, by Cornish and Fisher's expansion about the normal one.

    Within a percent for shares up to 0.99 from four degrees of freedom on; below that the exact ones are known.
    """
    if degrees == 1:
        return math.tan(math.pi * (share - 0.5))
    if degrees == 2:
        return (2 * share - 1) * math.sqrt(2 / (4 * share * (1 - share)))
    x = float(torch.special.ndtri(torch.tensor(share, dtype=torch.float64)))
    terms = (
        x,
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
    )
    return math.fsum(term / degrees**power for power, term in enumerate(terms))
