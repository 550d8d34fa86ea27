"""Sums over the OOD scores of images that nobody has in one place: what a federation knows of its in-distribution images.

A score has two parts, the largest cosine a and the largest logit b (ood.py). The mean, the standard deviation and the
correlation of both follow exactly from six sums; the quantiles of their standardised sum follow from a histogram with
fixed bins, up to the width of a bin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..budgets import MAX_SCORES
from ..errors import UpdateFileError

MOMENTS = 6  # n, Σa, Σb, Σa², Σab, Σb²
LOWEST, HIGHEST, BINS = (
    -12.0,
    6.0,
    360,
)  # of the histogram: scores beyond its ends count in the outermost bins
BIN_WIDTH = (HIGHEST - LOWEST) / BINS  # 0.05, where the standard deviation of a score is between 1 and 2
MIN_SPREAD = 1e-6  # below that a part of the score is constant


@dataclass(frozen=True)
class ScoreSums:
    """The moments of the two parts, and the histogram of the scores; its counts are 0 where it was not needed."""

    moments: np.ndarray  # (6), float64
    histogram: np.ndarray  # (BINS), int64

    @classmethod
    def of(cls, moments: np.ndarray, histogram: np.ndarray | None = None) -> ScoreSums:
        """Make the sums of moments and, if there is one, a histogram."""
        counts = np.zeros(BINS) if histogram is None else histogram
        return cls(np.array(moments, np.float64), np.rint(counts).astype(np.int64))

    @property
    def count(self) -> int:
        """The number of images."""
        return round(float(self.moments[0]))

    @property
    def mean(self) -> np.ndarray:
        """The means of the two parts (2)."""
        mean: np.ndarray = self.moments[1:3] / max(self.count, 1)
        return mean

    @property
    def spread(self) -> np.ndarray:
        """The standard deviations of the two parts (2)."""
        spread: np.ndarray = np.maximum(np.sqrt(np.diag(self._covariance())), MIN_SPREAD)
        return spread

    @property
    def deviation(self) -> float:
        """The standard deviation of the score, whose mean is 0."""
        correlation = self._covariance() / np.outer(self.spread, self.spread)
        return float(np.sqrt(max(correlation.sum(), 0.0)))

    def ranked(self, rank: int) -> float | None:
        """Return the score of this rank, 1 being the lowest, to the width of a bin; None without a histogram."""
        upto = self.histogram.cumsum()
        if not 1 <= rank <= upto[-1]:
            return None
        index = int(np.searchsorted(upto, rank))
        inside = self.histogram[index]
        share = (rank - (upto[index] - inside) - 0.5) / inside
        return float(LOWEST + BIN_WIDTH * (index + share))

    def fits(self) -> bool:
        """Tell whether the arrays have the types, shapes and values of sums."""
        moments, histogram = self.moments, self.histogram
        return (
            moments.shape == (MOMENTS,)
            and moments.dtype == np.float64
            and histogram.shape == (BINS,)
            and histogram.dtype == np.int64
            and 0 <= self.count <= MAX_SCORES
            and bool((histogram >= 0).all())
            and histogram.sum(dtype=np.float64) in (0, self.count)
            and self._is_finite()
        )

    def _is_finite(self) -> bool:
        with np.errstate(all="ignore"):  # sums that overflow are refused
            return bool(np.isfinite([*self.mean, *self.spread, self.deviation]).all())

    def tensors(self) -> dict[str, np.ndarray]:
        """Return what an update file stores."""
        return {"moments": self.moments, "histogram": self.histogram}

    @classmethod
    def read(cls, tensors: Mapping[str, np.ndarray]) -> ScoreSums:
        """Make the sums of an update file's tensors, as copies that do not keep the file in memory."""
        sums = cls(tensors["moments"].copy(), tensors["histogram"].copy())
        if not sums.fits():
            raise UpdateFileError("the sums of the OOD detector are not valid.", "Train it again.")
        return sums

    def _covariance(self) -> np.ndarray:
        """Compute the covariance of the two parts (2, 2); rounding cannot make a variance negative."""
        count, a, b, aa, ab, bb = self.moments.tolist()
        count = max(count, 2.0)
        variances = [max(aa - a * a / count, 0.0), max(bb - b * b / count, 0.0)]
        crossed = ab - a * b / count
        scatter = np.array([[variances[0], crossed], [crossed, variances[1]]])
        covariance: np.ndarray = scatter / (count - 1)
        return covariance


def moments_of(pairs: np.ndarray) -> np.ndarray:
    """Compute n, Σa, Σb, Σa², Σab and Σb² (6) of pairs (n, 2)."""
    a, b = pairs.astype(np.float64).T
    return np.array([len(pairs), a.sum(), b.sum(), (a * a).sum(), (a * b).sum(), (b * b).sum()])


def histogram_of(scores: np.ndarray) -> np.ndarray:
    """Count how many scores (n) lie in each bin (BINS)."""
    index = np.floor((scores - LOWEST) / BIN_WIDTH).clip(0, BINS - 1).astype(np.int64)
    counts: np.ndarray = np.bincount(index, minlength=BINS)
    return counts
