"""Leave-one-out: every support image is classified by a head that was built without it.

One image of each class is held out at a time, so the classes stay as balanced as they were and a class of N_c images
needs N_c heads, not N. A head takes milliseconds. Where classes are large, several of their images are held out together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...arrays import Array, to_numpy
from ...heads import Head, SingularError
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
    folds = _folds(labels, FOLDS if head.closed_form else SOLVER_FOLDS, seed)
    rebuilt = head.unconfigured().match(features)
    logits = np.full((len(labels), int(labels.max()) + 1), np.nan)
    cosines = np.full(len(labels), np.nan)
    for fold in range(int(folds.max()) + 1):
        held_out = folds == fold
        rest, rest_labels, queries = features[~held_out], labels[~held_out], features[held_out]
        try:
            logits[held_out] = rebuilt.configure(rest, rest_labels).logits(queries)
        except SingularError:
            continue
        cosines[held_out] = largest_cosine(class_directions(rest, rest_labels), queries)
    index = np.flatnonzero(np.isfinite(logits).all(1))
    return LeaveOneOut(index, logits[index], cosines[index])


def _folds(labels: np.ndarray, most: int, seed: int) -> np.ndarray:
    """Return in which fold each image is held out (N); −1 for the only image of a class."""
    folds = np.full(len(labels), -1)
    generator = numpy_generator(seed, "leave out")
    largest = int(np.bincount(labels).max())
    for c in np.unique(labels):
        members = np.flatnonzero(labels == c)
        if len(members) > 1:
            count = min(most, largest, len(members))
            folds[members[permutation(len(members), generator)]] = np.arange(len(members)) % count
    return folds
