"""Leave-one-out: every support image is classified by a head that was built without it.

One image of each class is held out at a time, so the classes stay as balanced as they were and a class of N_c images
needs N_c heads, not N. A head takes milliseconds. Where classes are large, several of their images are held out together.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ...heads import Head, SingularError
from ...model.ood import class_directions, largest_cosine
from ...seeding import make_generator, permutation

FOLDS = 20  # at most; then a twentieth of the images is held out at a time
SOLVER_FOLDS = 5  # of a head that an iterative solver builds


@dataclass(frozen=True)
class LeaveOneOut:
    """Images that could be held out (those of classes with another image), and their logits."""

    index: Tensor  # (n), ascending
    logits: Tensor  # (n, C), float64
    cosines: Tensor  # (n), with the direction of the nearest class

    def __len__(self) -> int:
        return len(self.index)

    def select(self, chosen: Tensor) -> LeaveOneOut:
        """Return those among the chosen images ((N) bool)."""
        rows = chosen[self.index]
        return LeaveOneOut(self.index[rows], self.logits[rows], self.cosines[rows])


@torch.no_grad()
def leave_one_out(head: Head, features: Tensor, labels: Tensor, *, seed: int = 0) -> LeaveOneOut:
    """Classify each of the images without itself; labels are 0 … C−1.

    The head's own weights are used, its state is not touched.
    """
    features, labels = features.cpu(), labels.cpu()
    folds = _folds(labels, FOLDS if head.closed_form else SOLVER_FOLDS, seed)
    rebuilt = head.unconfigured().cpu()
    logits = torch.full((len(labels), int(labels.max()) + 1), torch.nan, dtype=torch.float64)
    cosines = torch.full((len(labels),), torch.nan, dtype=torch.float64)
    for fold in range(int(folds.max()) + 1):
        held_out = folds == fold
        rest, rest_labels, queries = features[~held_out], labels[~held_out], features[held_out]
        try:
            logits[held_out] = rebuilt.configure(rest, rest_labels).logits(queries).double()
        except SingularError:
            continue
        cosines[held_out] = largest_cosine(class_directions(rest, rest_labels), queries).double()
    index = torch.nonzero(logits.isfinite().all(1)).flatten()
    return LeaveOneOut(index, logits[index], cosines[index])


def _folds(labels: Tensor, most: int, seed: int) -> Tensor:
    """Return in which fold each image is held out (N); −1 for the only image of a class."""
    folds = torch.full((len(labels),), -1)
    generator = make_generator(seed, "leave out")
    largest = int(torch.bincount(labels).max())
    for c in torch.unique(labels).tolist():
        members = torch.nonzero(labels == c).flatten()
        if len(members) > 1:
            count = min(most, largest, len(members))
            folds[members[permutation(len(members), generator)]] = torch.arange(len(members)) % count
    return folds
