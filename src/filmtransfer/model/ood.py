"""Out-of-distribution (OOD) detection: open-set rejection of images of none of the classes.

    s(z) = ( max_c cos(z, μ_c) − m₁ ) / s₁  +  ( max_c logit_c(z) − m₂ ) / s₂

The features of an OOD image point elsewhere (lengths are ignored on purpose: they reflect the contrast of an image), and
no class explains them much better than the background of all images does: for LDA the largest logit is half of the
Mahalanobis distance to that background less that to the class. The first term detects images of another kind, the second
images of the same kind (docs/trust.md has the AUROC of both). m and s are mean and standard deviation over support
images, each scored by classes built without it; the same scores give the threshold at a stated false-alarm rate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from scipy.special import stdtrit
from torch import Tensor
from torch.nn import functional as F

from ..errors import InputError, UpdateFileError, UsageError
from ..heads import class_means

MIN_SCORES = 3  # below that there is no estimate of the spread
FALSE_ALARM = 0.05  # the default share of in-distribution images that may be rejected


@dataclass(frozen=True)
class OODDetector:
    """The directions of the classes, and the leave-one-out scores of in-distribution images."""

    directions: Tensor  # (C, D), int8 of any length: rounding is a hundredth of the spread of the scores
    known: Tensor  # (n, 2): the largest cosine and the largest logit of leave-one-out images

    @classmethod
    def fit(cls, features: Tensor, labels: Tensor, cosines: Tensor, logits: Tensor) -> OODDetector:
        """Make a detector from support features (N, D), labels 0 … C−1, and leave-one-out cosines (n) and logits (n, C)."""
        towards = class_directions(features, labels).cpu()
        longest = towards.abs().max(1, keepdim=True).values.clamp(min=torch.finfo(towards.dtype).tiny)
        known = torch.stack([cosines.cpu().double(), logits.cpu().double().max(1).values], 1)
        return cls((127 * towards / longest).round().to(torch.int8), known.float())

    def scores(self, features: Tensor, logits: Tensor) -> Tensor:
        """Compute s(z) (B) of features (B, D) and the head's own logits (B, C)."""
        cosines = largest_cosine(F.normalize(self.directions.to(features), dim=1), features)
        return self._standardise(torch.stack([cosines.double(), logits.double().max(1).values], 1))

    def known_scores(self) -> Tensor:
        """Return s of the leave-one-out images (n), ascending."""
        return torch.sort(self._standardise(self.known.double())).values

    def _standardise(self, pairs: Tensor) -> Tensor:
        known = self.known.double().to(pairs.device)
        return ((pairs - known.mean(0)) / known.std(0).clamp(min=1e-6)).sum(1)

    @property
    def usable(self) -> bool:
        """Whether there are enough scores for a threshold."""
        return len(self.known) >= MIN_SCORES

    def threshold(self, false_alarm: float = FALSE_ALARM) -> float:
        """Return the score below which a share ``false_alarm`` of in-distribution images is expected.

        The empirical quantile (with the +1 that makes it exact for exchangeable images) where there are enough images
        for it; else the bound that Student's t distribution gives for one more image.
        """
        if not 0 < false_alarm < 0.5:
            raise UsageError(f"The false-alarm rate cannot be {false_alarm}.", "It lies between 0 and 0.5.")
        count = len(self.known)
        if not self.usable:
            raise InputError(
                f"{count} leave-one-out scores are too few to detect out-of-distribution images.",
                "Train it with two or more photos of each class.",
            )
        rank = math.floor(false_alarm * (count + 1))
        scores = self.known_scores()
        if rank >= MIN_SCORES:
            return float(scores[rank - 1])
        spread = float(scores.std()) * math.sqrt(1 + 1 / count)
        return float(scores.mean()) - float(stdtrit(count - 1, 1 - false_alarm)) * spread

    def fits(self, classes: int, features: int) -> bool:
        """Tell whether the tensors have the types and shapes of C classes and D features."""
        return (
            tuple(self.directions.shape) == (classes, features)
            and self.directions.dtype == torch.int8
            and self.known.ndim == 2
            and self.known.shape[1] == 2
            and self.known.dtype == torch.float32
        )

    def tensors(self) -> dict[str, Tensor]:
        """Return what an update file stores."""
        return {"directions": self.directions, "known": self.known}

    @classmethod
    def read(cls, tensors: Mapping[str, Tensor]) -> OODDetector:
        """Make a detector from the tensors of an update file."""
        if tensors.keys() != {"directions", "known"}:
            raise UpdateFileError("the OOD detector is not complete.", "Train it again.")
        return cls(tensors["directions"], tensors["known"])


def class_directions(features: Tensor, labels: Tensor) -> Tensor:
    """Compute μ_c / ‖μ_c‖ (C, D)."""
    return F.normalize(class_means(features, labels), dim=1)


def largest_cosine(directions: Tensor, features: Tensor) -> Tensor:
    """Compute max_c cos(z, μ_c) (B)."""
    return (F.normalize(features, dim=1) @ directions.mT).max(1).values
