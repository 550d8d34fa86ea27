"""Sums over the scores of held-out images under the classifier over all classes, which is what its calibration needs.

Each client classifies its own images by the global head built without them (leave-one-out), and its test images by the
global head. It sends only sums: the loss at a grid of temperatures, the moments of the two parts of the OOD score, how
many images there were and how many were classified correctly. They can be added like the statistics of the head, also
under secure aggregation, and their minimum, mean and spread are those of all images in one place.

The server asks each client for one or both kinds of images, ``OWN`` and ``TEST``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from ..arrays import unit_rows
from ..budgets import MAX_SCORE_SUM
from ..errors import InputError
from ..heads import Head, Statistics
from ..model.ood import largest_cosine, score_pairs
from ..model.score_sums import BINS, MOMENTS, histogram_of, moments_of
from ..training.assess.calibration import CURVE, loss_curve
from ..training.assess.leave_one_out import leave_one_out_of_sums

OWN, TEST = "own", "test"
HISTOGRAM_SHAPES: dict[str, tuple[int, ...]] = {"histogram": (BINS,)}
SCORE_SHAPES: dict[str, tuple[int, ...]] = {"correct": (1,), "losses": (CURVE,), "moments": (MOMENTS,)}


@dataclass(frozen=True)
class LabelledFeatures:
    """Features (N, D) of a client's images, and their labels among the classes of the federation (N)."""

    features: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class HeldOutScores:
    """What the global classifier makes of n held-out images of one client; it does not leave the client."""

    labels: np.ndarray  # (n)
    logits: np.ndarray  # (n, C), float64
    cosines: np.ndarray  # (n), with the direction of the nearest class

    def __add__(self, other: HeldOutScores) -> HeldOutScores:
        return HeldOutScores(
            np.concatenate([self.labels, other.labels]),
            np.concatenate([self.logits, other.logits]),
            np.concatenate([self.cosines, other.cosines]),
        )

    def sums(self) -> dict[str, np.ndarray]:
        """Return what is sent of them: arrays of ``SCORE_SHAPES``."""
        return {
            "correct": np.array([float((self.logits.argmax(1) == self.labels).sum())]),
            "losses": loss_curve(self.logits, self.labels),
            "moments": moments_of(score_pairs(self.cosines, self.logits)),
        }

    def histogram(self, mean: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """Count the OOD scores by bin, given the mean and the spread of their parts over all clients."""
        scores = ((score_pairs(self.cosines, self.logits) - mean) / spread).sum(1)
        return histogram_of(scores).astype(np.float64)


def held_out_scores(
    head: Head,
    total: Statistics,
    own: LabelledFeatures,
    test: LabelledFeatures | None,
    images: Collection[str],
) -> HeldOutScores:
    """Return a client's scores; ``total`` are the statistics of all clients, and include its own images."""
    total = total.as_numpy()
    _check_included(total, own)
    scores = HeldOutScores(np.empty(0, np.int64), np.empty((0, len(total.counts))), np.empty(0))
    if OWN in images:
        held_out = leave_one_out_of_sums(head, total, own.features, own.labels)
        scores += HeldOutScores(own.labels[held_out.index], held_out.logits, held_out.cosines)
    if TEST in images and test is not None and len(test.labels):
        complete = head.unconfigured().match(test.features).configure_from(total)
        directions = unit_rows(total.means().astype(test.features.dtype))
        scores += HeldOutScores(
            test.labels,
            complete.logits(test.features).astype(np.float64),
            largest_cosine(directions, test.features),
        )
    return scores


@dataclass(frozen=True)
class SummedScores:
    """The sums over clients."""

    count: int
    correct: int
    losses: np.ndarray  # (CURVE)
    moments: np.ndarray  # (MOMENTS)

    @classmethod
    def read(cls, arrays: Mapping[str, np.ndarray]) -> SummedScores:
        """Return the sums of checked arrays."""
        count, correct = (round(float(arrays[name][0])) for name in ("moments", "correct"))
        return cls(count, correct, arrays["losses"], arrays["moments"])


def check_scores(arrays: Mapping[str, np.ndarray], images: int | None = None) -> None:
    """Raise an error if these cannot be sums of scores; ``images``: those of one client, of at most so many images."""
    _check_shapes(arrays, SCORE_SHAPES)
    count, correct = float(arrays["moments"][0]), float(arrays["correct"][0])
    if not 0 <= round(correct) <= round(count) or abs(count - round(count)) > 1e-3:
        raise InputError(f"{correct:g} of {count:g} images cannot have been classified correctly.")
    if float(arrays["losses"].min()) < -1e-3:
        raise InputError("A sum of losses is negative.")
    largest = max(float(np.abs(array).max()) for array in arrays.values())
    if largest > round(count) * MAX_SCORE_SUM + 1e-3:
        raise InputError("The sums of scores are too large for so many images.")
    if images is None:
        return
    n, a, b, aa, ab, bb = arrays["moments"].tolist()
    pairs = ((a, n, aa), (b, n, bb), (ab, aa, bb))  # Cauchy–Schwarz: x² ≤ yz
    possible = aa <= n * (1 + 1e-6) + 1e-3 and all(x * x <= y * z * (1 + 1e-6) + 1e-3 for x, y, z in pairs)
    if n > images or not possible:
        raise InputError(f"The sums of scores are not those of at most {images} images.")


def check_histogram(arrays: Mapping[str, np.ndarray], images: int | None = None) -> None:
    """Raise an error if this cannot be a histogram of scores, of at most so many images."""
    _check_shapes(arrays, HISTOGRAM_SHAPES)
    histogram = arrays["histogram"]
    if float(histogram.min()) < -1e-3:
        raise InputError("A count of scores is negative.")
    if images is not None and max(float(histogram.max()), float(histogram.sum())) > images + 1e-3:
        raise InputError(f"The histogram of scores is not that of at most {images} images.")


def _check_shapes(arrays: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]]) -> None:
    if {name: array.shape for name, array in arrays.items()} != dict(shapes):
        raise InputError("The sums of scores do not have the expected shapes.")
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise InputError("The sums of scores are not finite.")


def _check_included(total: Statistics, own: LabelledFeatures) -> None:
    """Refuse statistics that cannot include the images of this client."""
    if (np.bincount(own.labels, minlength=len(total.counts)) > total.counts).any():
        raise InputError(
            "The summed statistics do not include the images of this client.",
            "Do not change the images while the federation runs.",
        )
