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

import numpy as np

from ..arrays import unit_rows
from ..errors import InputError, UpdateFileError, UsageError
from ..heads import class_means

MIN_SCORES = 3  # below that there is no estimate of the spread
FALSE_ALARM = 0.05  # the default share of in-distribution images that may be rejected


@dataclass(frozen=True)
class OODDetector:
    """The directions of the classes, and the leave-one-out scores of in-distribution images."""

    directions: np.ndarray  # (C, D), int8 of any length: rounding is a hundredth of the spread of the scores
    known: np.ndarray  # (n, 2): the largest cosine and the largest logit of leave-one-out images

    @classmethod
    def fit(
        cls, features: np.ndarray, labels: np.ndarray, cosines: np.ndarray, logits: np.ndarray
    ) -> OODDetector:
        """Make a detector from support features (N, D), labels 0 … C−1, and leave-one-out cosines (n) and logits (n, C)."""
        towards = class_directions(features, labels)
        longest = np.maximum(np.abs(towards).max(1, keepdims=True), np.finfo(towards.dtype).tiny)
        known = np.stack([cosines, logits.max(1)], 1)
        return cls(np.rint(127 * towards / longest).astype(np.int8), known.astype(np.float32))

    def scores(self, features: np.ndarray, logits: np.ndarray) -> np.ndarray:
        """Compute s(z) (B) of features (B, D) and the head's own logits (B, C)."""
        cosines = largest_cosine(unit_rows(self.directions.astype(features.dtype)), features)
        return self._standardise(np.stack([cosines, logits.max(1)], 1).astype(np.float64))

    def known_scores(self) -> np.ndarray:
        """Return s of the leave-one-out images (n), ascending."""
        return np.sort(self._standardise(self.known.astype(np.float64)))

    def _standardise(self, pairs: np.ndarray) -> np.ndarray:
        known = self.known.astype(np.float64)
        total: np.ndarray = ((pairs - known.mean(0)) / np.maximum(known.std(0, ddof=1), 1e-6)).sum(1)
        return total

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
        spread = float(scores.std(ddof=1)) * math.sqrt(1 + 1 / count)
        return float(scores.mean()) - student_quantile(1 - false_alarm, count - 1) * spread

    def fits(self, classes: int, features: int) -> bool:
        """Tell whether the tensors have the types and shapes of C classes and D features."""
        return (
            tuple(self.directions.shape) == (classes, features)
            and self.directions.dtype == np.int8
            and self.known.ndim == 2
            and self.known.shape[1] == 2
            and self.known.dtype == np.float32
        )

    def tensors(self) -> dict[str, np.ndarray]:
        """Return what an update file stores."""
        return {"directions": self.directions, "known": self.known}

    @classmethod
    def read(cls, tensors: Mapping[str, np.ndarray]) -> OODDetector:
        """Make a detector from the tensors of an update file."""
        if tensors.keys() != {"directions", "known"}:
            raise UpdateFileError("the OOD detector is not complete.", "Train it again.")
        return cls(tensors["directions"], tensors["known"])


def class_directions(features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Compute μ_c / ‖μ_c‖ (C, D)."""
    directions: np.ndarray = unit_rows(class_means(features, labels))
    return directions


def largest_cosine(directions: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Compute max_c cos(z, μ_c) (B)."""
    largest: np.ndarray = (unit_rows(features) @ directions.mT).max(1)
    return largest


def student_quantile(probability: float, freedom: int) -> float:
    """Return the quantile of Student's t distribution, above the median, for a whole number ν of degrees of freedom.

    With t = √ν tan θ its distribution function is a finite sum (Abramowitz and Stegun, 26.7.3 and 26.7.4), which is
    inverted by bisection. scipy has it too, but importing it takes longer than classifying an image (docs/log.md).
    """
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_share(middle, freedom) < 2 * probability - 1 else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _student_share(angle: float, freedom: int) -> float:
    """Compute P(|T| < √ν tan θ)."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term, total = (cosine if odd else 1.0), 0.0
    for k in range(2 + odd, freedom + 1, 2):
        total += term
        term *= cosine * cosine * (k - 1) / k
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
