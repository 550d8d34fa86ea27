"""Every support image judged by a head that was built without it.

One image of each class is left out at a time, so the classes stay as balanced as they were and a class of N_c images
needs N_c heads, not N. A head takes milliseconds. Where classes are large, several of their images go together.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ...heads import GaussianHead, SingularError
from ...model.ood import directions, nearness
from ...seeding import make_generator, permutation

ROUNDS = 20  # at most; then a twentieth of the images is left out at a time
LINEAR_ROUNDS = 5  # a head that is solved for step by step takes its time


@dataclass(frozen=True)
class LeftOut:
    """Images that could be left out (those of classes with another image), and what was said of them."""

    index: Tensor  # (n), ascending
    logits: Tensor  # (n, C), float64
    cosines: Tensor  # (n), with the direction of the nearest class

    def of(self, wanted: Tensor) -> LeftOut:
        """Those among the wanted images ((N) bool)."""
        chosen = wanted[self.index]
        return LeftOut(self.index[chosen], self.logits[chosen], self.cosines[chosen])


@torch.no_grad()
def leave_out(head: GaussianHead, features: Tensor, labels: Tensor, *, seed: int = 0) -> LeftOut:
    """Labels are 0 … C−1; the head's covariance weights are used, its state is not touched."""
    features, labels = features.cpu(), labels.cpu()
    rounds = _rounds(labels, LINEAR_ROUNDS if head.name == "linear" else ROUNDS, seed)
    fresh = head.fresh().cpu()
    logits = torch.full((len(labels), int(labels.max()) + 1), torch.nan, dtype=torch.float64)
    cosines = torch.full((len(labels),), torch.nan, dtype=torch.float64)
    for number in range(int(rounds.max()) + 1):
        out = rounds == number
        kept, kept_labels, tried = features[~out], labels[~out], features[out]
        try:
            logits[out] = fresh.configure(kept, kept_labels).logits(tried).double()
        except SingularError:
            continue
        cosines[out] = nearness(directions(kept, kept_labels), tried).double()
    judged = torch.nonzero(logits.isfinite().all(1)).flatten()
    return LeftOut(judged, logits[judged], cosines[judged])


def _rounds(labels: Tensor, most: int, seed: int) -> Tensor:
    """In which round each image is left out (N); −1 for the only image of a class."""
    rounds = torch.full((len(labels),), -1)
    generator = make_generator(seed, "leave out")
    largest = int(torch.bincount(labels).max())
    for c in torch.unique(labels).tolist():
        members = torch.nonzero(labels == c).flatten()
        if len(members) > 1:
            count = min(most, largest, len(members))
            rounds[members[permutation(len(members), generator)]] = torch.arange(len(members)) % count
    return rounds
