"""Leave-one-out: every support image is classified by a head that was built without it.

One image of each class is held out at a time, so the classes stay as balanced as they were and a class of N_c images
needs N_c heads, not N. A head takes milliseconds. Where classes are large, several of their images are held out together.

A client of a federation has only a part of the images, and the summed statistics of all of them: its held-out images are
subtracted from the sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...arrays import Array, to_numpy, unit_rows
from ...heads import Head, SingularError, Statistics
from ...model.ood import class_directions, largest_cosine
from ...seeding import numpy_generator, permutation

FOLDS = 20  # at most; then a twentieth of the images is held out at a time
SOLVER_FOLDS = 5  # of a head that an iterative solver builds


@dataclass(frozen=True)
class LeaveOneOut:
    """Images that could be held out (those of classes with another image), and their logits."""

    index: np.ndarray  # (n), ascending
    logits: np.ndarray  # (n, C), float64
    cosines: np.ndarray  # (n), with the direction of the nearest class

    def __len__(self) -> int:
        return len(self.index)

    def select(self, chosen: np.ndarray) -> LeaveOneOut:
        """Return those among the chosen images ((N) bool)."""
        rows = chosen[self.index]
        return LeaveOneOut(self.index[rows], self.logits[rows], self.cosines[rows])


def leave_one_out(head: Head, features: Array, labels: Array, *, seed: int = 0) -> LeaveOneOut:
    """Classify each of the images without itself; labels are 0 … C−1.

    The head's own weights are used, its state is not touched.
    """
    features, labels = to_numpy(features), to_numpy(labels)
    rebuilt = head.unconfigured().match(features)

    def build(held_out: np.ndarray) -> tuple[Head, np.ndarray]:
        rest, rest_labels = features[~held_out], labels[~held_out]
        return rebuilt.configure(rest, rest_labels), class_directions(rest, rest_labels)

    folds = _folds(labels, np.bincount(labels), FOLDS if head.closed_form else SOLVER_FOLDS, seed)
    return _classify(features, folds, int(labels.max()) + 1, build)


def leave_one_out_of_sums(
    head: Head, total: Statistics, features: Array, labels: Array, *, seed: int = 0
) -> LeaveOneOut:
    """Classify each of the images by a head of the summed statistics ``total`` without this image.

    ``total`` includes these images and others; labels are among its classes 0 … C−1. With no others it is
    ``leave_one_out``.
    """
    features, labels = to_numpy(features), to_numpy(labels)
    total, rebuilt = total.as_numpy(), head.unconfigured().match(features)
    counts = total.counts

    def build(held_out: np.ndarray) -> tuple[Head, np.ndarray]:
        own = Statistics.of(features[held_out], labels[held_out], len(counts), head.scatter or "none")
        rest = total - own
        return rebuilt.configure_from(rest), unit_rows(rest.means().astype(features.dtype))

    return _classify(features, _folds(labels, counts, FOLDS, seed), len(counts), build)


def _classify(
    features: np.ndarray,
    folds: np.ndarray,
    classes: int,
    build: Callable[[np.ndarray], tuple[Head, np.ndarray]],
) -> LeaveOneOut:
    """Classify the images of each fold by the head and the class directions that ``build`` makes without them."""
    logits = np.full((len(features), classes), np.nan)
    cosines = np.full(len(features), np.nan)
    for fold in range(int(folds.max(initial=-1)) + 1):
        held_out = folds == fold
        try:
            head, directions = build(held_out)
            logits[held_out] = head.logits(features[held_out])
        except SingularError:
            continue
        cosines[held_out] = largest_cosine(directions, features[held_out])
    index = np.flatnonzero(np.isfinite(logits).all(1))
    return LeaveOneOut(index, logits[index], cosines[index])


def _folds(labels: np.ndarray, counts: np.ndarray, most: int, seed: int) -> np.ndarray:
    """Return in which fold each image is held out (N); −1 for the only image of a class.

    ``counts`` (C) are the images that a class has in all, which may be more than those here.
    """
    folds = np.full(len(labels), -1)
    generator = numpy_generator(seed, "leave out")
    largest = int(np.bincount(labels).max(initial=1))
    for c in np.unique(labels):
        members = np.flatnonzero(labels == c)
        if counts[c] > 1:
            count = min(most, largest, len(members))
            folds[members[permutation(len(members), generator)]] = np.arange(len(members)) % count
    return folds
