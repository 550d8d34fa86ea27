"""Algorithm 1 of the paper: split the downstream data D into D_train and D_test, class by class.

Support images of the episodes are sampled from D_train, query images from D_test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from ..errors import invalid_choice
from ..seeding import permutation

SplitName = Literal["split", "no_split", "use_all", "resplit"]
SPLITS: tuple[SplitName, ...] = get_args(SplitName)

# "If D is sufficiently large (|D| ≈ 1000), such that overfitting is not an issue" (paper).
LARGE_DATASET = 1000
MIN_IMAGES = 4  # a class with fewer images has none held out


@dataclass(frozen=True)
class Split:
    """Indices of the images in D_train and D_test."""

    train: Tensor
    test: Tensor


def choose_split(name: str, images: int) -> SplitName:
    """Resolve ``auto`` and ``paper`` by the number of images: halves, or no split if D is large."""
    if name in ("auto", "paper"):
        return "no_split" if images >= LARGE_DATASET else "resplit" if name == "auto" else "split"
    if name not in SPLITS:
        raise invalid_choice("The split", name, ("auto", "paper", *SPLITS))
    return name


def no_split(labels: Tensor) -> Split:
    """Return D_train = D_test = D; a class with one image is used as support only."""
    indices = torch.arange(len(labels))
    return Split(indices, indices[torch.bincount(labels)[labels] > 1])


def split_halves(labels: Tensor, generator: torch.Generator) -> Split:
    """Split each class into random halves, the larger one for D_train.

    The paper requires two images per class; here a class with one image is used as support only.
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
    """Return whether any class has a second image; otherwise there are no episodes and no fine-tuning."""
    return bool((torch.bincount(labels) > 1).any())


def hold_out(labels: Tensor, fraction: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return fit and held-out indices: a fraction of each class that is not too small is held out."""
    held_out = torch.zeros(len(labels), dtype=torch.bool)
    if fraction > 0:
        for c in torch.unique(labels).tolist():
            members = torch.nonzero(labels == c).flatten()
            if len(members) >= MIN_IMAGES:
                count = max(1, round(fraction * len(members)))
                held_out[members[permutation(len(members), generator)[:count]]] = True
    return torch.nonzero(~held_out).flatten(), torch.nonzero(held_out).flatten()
