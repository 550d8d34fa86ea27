"""Algorithm 1: split the downstream data D into D_train and D_test, class by class.

D_train gives the support images of the episodes, D_test their query images.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ..errors import invalid_choice
from ..seeding import permutation

SplitName = Literal["split", "no_split", "use_all", "resplit"]
SPLITS = ("split", "no_split", "use_all", "resplit")

# "If D is sufficiently large (|D| ≈ 1000), such that overfitting is not an issue" (paper).
LARGE = 1000


@dataclass(frozen=True)
class Split:
    """Indices of the images that episodes draw support and query from."""

    train: Tensor
    test: Tensor


def choose_split(name: str, images: int) -> SplitName:
    """``auto`` and ``paper`` go by size: halves below 1000 images, no split from there."""
    if name in ("auto", "paper"):
        return "no_split" if images >= LARGE else "resplit" if name == "auto" else "split"
    if name not in SPLITS:
        raise invalid_choice("The split", name, ("auto", "paper", *SPLITS))
    return name  # type: ignore[return-value]


def no_split(labels: Tensor) -> Split:
    """D_train = D_test = D; a class with one image serves as support only."""
    everything = torch.arange(len(labels))
    return Split(everything, everything[torch.bincount(labels)[labels] > 1])


def split_halves(labels: Tensor, generator: torch.Generator) -> Split:
    """Random halves of each class, the larger one for D_train.

    The paper requires two images a class; here a class with one image serves as support only.
    """
    train, test = [], []
    for c in torch.unique(labels).tolist():
        members = torch.nonzero(labels == c).flatten()
        members = members[permutation(len(members), generator)]
        train_count = (len(members) + 1) // 2
        train.append(members[:train_count])
        test.append(members[train_count:])
    return Split(torch.cat(train), torch.cat(test))


def has_query_images(labels: Tensor) -> bool:
    """Whether any class has a second image: all one-shot means no episodes, hence no fine-tuning."""
    return bool((torch.bincount(labels) > 1).any())
