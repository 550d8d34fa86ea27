"""Out-of-distribution (OOD) detection: open-set rejection of images of none of the classes.

    s(z) = ( max_c cos(z, μ_c) − m₁ ) / s₁  +  ( max_c logit_c(z) − m₂ ) / s₂

The features of an OOD image point elsewhere (lengths are ignored on purpose: they reflect the contrast of an image), and
no class explains them much better than the background of all images does: for LDA the largest logit is half of the
Mahalanobis distance to that background less that to the class. The first term detects images of another kind, the second
images of the same kind (docs/trust.md has the AUROC of both). m and s are mean and standard deviation over support
images, each scored by classes built without it; the same scores give the threshold at a stated false-alarm rate. The
classifier of a federation has sums over such scores instead (score_sums.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..arrays import Array, cast, dtype_name, like, namespace, unit_rows
from ..errors import InputError, UpdateFileError, UsageError
from ..formatting import spell_out
from ..heads import class_means
from .score_sums import MIN_SPREAD, ScoreSums

MIN_SCORES = 3  # below that there is no estimate of the spread
MANY_DEGREES = 1000  # of freedom, from which Student's distribution is nearly normal
FALSE_ALARM = 0.05  # the default share of in-distribution images that may be rejected


@dataclass(frozen=True)
class OODDetector:
    """The directions of the classes, and the leave-one-out scores of in-distribution images."""

    directions: np.ndarray  # (C, D), int8 of any length: rounding is a hundredth of the spread of the scores
    known: np.ndarray  # (n, 2): the largest cosine and the largest logit of leave-one-out images
    sums: ScoreSums | None = None  # instead of ``known``, which is then (0, 2)

    @classmethod
    def fit(
        cls, features: np.ndarray, labels: np.ndarray, cosines: np.ndarray, logits: np.ndarray
    ) -> OODDetector:
        """Make a detector from support features (N, D), labels 0 … C−1, and leave-one-out cosines (n) and logits (n, C)."""
        known = score_pairs(cosines, logits)
        return cls(_quantize(class_directions(features, labels)), known.astype(np.float32))

    @classmethod
    def from_sums(cls, directions: np.ndarray, sums: ScoreSums) -> OODDetector:
        """Make a detector from the directions of the classes (C, D) and sums over leave-one-out scores."""
        return cls(_quantize(directions), np.empty((0, 2), np.float32), sums)

    def scores(self, features: Array, logits: Array) -> Array:
        """Compute s(z) (B) of features (B, D) and the head's own logits (B, C), arrays or tensors; its dtype is theirs."""
        return self.scores_towards(self.unit_directions(features), features, logits)

    def unit_directions(self, kind: Array) -> Array:
        """Return the directions of length 1 (C, D), an array or tensor of the kind and dtype of ``kind``."""
        return unit_rows(like(self.directions, kind))

    def scores_towards(self, directions: Array, features: Array, logits: Array) -> Array:
        """Compute s(z) (B) with ``unit_directions``, which a graph stores instead of computing them for every image."""
        return self._standardise(score_pairs(largest_cosine(directions, features), logits))

    def known_scores(self) -> np.ndarray:
        """Return s of the leave-one-out images (n), ascending."""
        return np.sort(self._standardise(self.known.astype(np.float64)))

    def _standardise(self, pairs: Array) -> Array:
        mean, spread = self.centre_and_spread()
        return ((pairs - like(mean, pairs)) / like(spread, pairs)).sum(1)

    def centre_and_spread(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the means m (2) and the standard deviations s (2) of the two parts of the score, in float64."""
        if self.sums is not None:
            return self.sums.mean, self.sums.spread
        known = self.known.astype(np.float64)
        return known.mean(0), np.maximum(known.std(0, ddof=1), MIN_SPREAD)

    @property
    def count(self) -> int:
        """The number of leave-one-out images."""
        return len(self.known) if self.sums is None else self.sums.count

    @property
    def usable(self) -> bool:
        """Whether there are enough scores for a threshold."""
        return self.count >= MIN_SCORES

    def threshold(self, false_alarm: float = FALSE_ALARM) -> float:
        """Return the score below which a share ``false_alarm`` of in-distribution images is expected.

        The empirical quantile (with the +1 that makes it exact for exchangeable images) where there are enough images
        for it; else the bound that Student's t distribution gives for one more image.
        """
        check_false_alarm(false_alarm)
        count = self.count
        if not self.usable:
            raise InputError(
                f"Detecting out-of-distribution images needs {MIN_SCORES} leave-one-out scores; there "
                f"{'is' if count == 1 else 'are'} {spell_out(count)}.",
                "Train it with two or more photos of each class.",
            )
        rank = math.floor(false_alarm * (count + 1))
        if rank >= MIN_SCORES and (quantile := self._ranked(rank)) is not None:
            return quantile
        deviation = self.sums.deviation if self.sums is not None else float(self.known_scores().std(ddof=1))
        return -student_quantile(1 - false_alarm, count - 1) * deviation * math.sqrt(1 + 1 / count)

    def _ranked(self, rank: int) -> float | None:
        """Return the score of this rank, 1 being the lowest; None where it is not known."""
        return self.sums.ranked(rank) if self.sums is not None else float(self.known_scores()[rank - 1])

    def fits(self, classes: int, features: int) -> bool:
        """Tell whether the tensors have the types and shapes of C classes and D features."""
        return (
            tuple(self.directions.shape) == (classes, features)
            and self.directions.dtype == np.int8
            and self.known.ndim == 2
            and self.known.shape[1] == 2
            and self.known.dtype == np.float32
            and (self.sums is None or self.sums.fits())
        )

    def tensors(self) -> dict[str, np.ndarray]:
        """Return what an update file stores."""
        scores = {"known": self.known} if self.sums is None else self.sums.tensors()
        return {"directions": self.directions, **scores}

    @classmethod
    def read(cls, tensors: Mapping[str, np.ndarray]) -> OODDetector:
        """Make a detector from the tensors of an update file."""
        if tensors.keys() == {"directions", "known"}:
            return cls(tensors["directions"], tensors["known"])
        if tensors.keys() == {"directions", "moments", "histogram"}:
            return cls(tensors["directions"], np.empty((0, 2), np.float32), ScoreSums.read(tensors))
        raise UpdateFileError("the OOD detector is not complete.", "Train it again.")


def score_pairs(cosines: Array, logits: Array) -> Array:
    """Return the two parts of the score (n, 2) of cosines with the nearest class (n) and logits (n, C)."""
    xp = namespace(logits)
    return xp.stack([cast(cosines, dtype_name(logits)), xp.amax(logits, 1)], 1)


def _quantize(directions: np.ndarray) -> np.ndarray:
    """Return the directions as int8 of any length."""
    longest = np.maximum(np.abs(directions).max(1, keepdims=True), np.finfo(directions.dtype).tiny)
    quantized: np.ndarray = np.rint(127 * directions / longest).astype(np.int8)
    return quantized


def check_false_alarm(rate: float) -> None:
    """Refuse a false-alarm rate for which there is no threshold."""
    if not 0 < rate < 0.5:
        raise UsageError(f"The false-alarm rate cannot be {rate}.", "It is above 0 and below 0.5.")


def class_directions(features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Compute μ_c / ‖μ_c‖ (C, D)."""
    directions: np.ndarray = unit_rows(class_means(features, labels))
    return directions


def largest_cosine(directions: Array, features: Array) -> Array:
    """Compute max_c cos(z, μ_c) (B), of arrays or tensors."""
    return namespace(features).amax(unit_rows(features) @ directions.T, 1)


def student_quantile(probability: float, freedom: int) -> float:
    """Return the quantile of Student's t distribution, above the median, for a whole number ν of degrees of freedom.

    With t = √ν tan θ its distribution function is a finite sum (Abramowitz and Stegun, 26.7.3 and 26.7.4), which is
    inverted by bisection. scipy has it too, but importing it takes longer than classifying an image (docs/log.md). The sum
    has ν/2 terms; for many degrees of freedom it is the expansion at the normal quantile (26.7.5), right to 1e-8.
    """
    if freedom > MANY_DEGREES:
        from statistics import NormalDist

        z = NormalDist().inv_cdf(probability)
        return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
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
