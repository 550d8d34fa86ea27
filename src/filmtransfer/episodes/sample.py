"""Algorithm 2 of the paper: sample a task τ, the support and query images of some of the classes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ..seeding import integer, make_generator, permutation
from .split import Split, SplitName, no_split, split_halves

MAX_QUERY = 2000  # images of a task (paper)


@dataclass(frozen=True)
class Episode:
    """A task: indices of its support and query images, and their labels 0 … way−1."""

    support: Tensor
    support_labels: Tensor
    query: Tensor
    query_labels: Tensor


def episodes(
    labels: Tensor, split: SplitName, support_size: int, seed: int, max_query: int = MAX_QUERY
) -> Iterator[Episode]:
    """Yield tasks without end, from one seed."""
    split_generator = make_generator(seed, "split")
    task_generator = make_generator(seed, "tasks")
    parts = split_halves(labels, split_generator) if split == "split" else no_split(labels)
    while True:
        if split == "use_all":
            yield use_all_task(labels)
            continue
        if split == "resplit":
            parts = split_halves(labels, split_generator)
        yield sample_task(labels, parts, support_size, task_generator, max_query)


def sample_task(
    labels: Tensor, split: Split, support_size: int, generator: torch.Generator, max_query: int = MAX_QUERY
) -> Episode:
    """Sample at least 5 classes (if there are as many), an equal number of shots, and their query images."""
    train_labels, test_labels = labels[split.train], labels[split.test]
    classes = torch.unique(train_labels)
    min_way = min(len(classes), 5)
    max_way = max(min(len(classes), support_size), min_way)  # even a small support set has 5 classes
    way = integer(min_way, max_way, generator)
    selected = classes[permutation(len(classes), generator)[:way]]
    selected = _with_query(selected, classes, test_labels, generator)
    balanced_shots = max(round(support_size / way), 1)
    max_test_shots = max(max_query // way, 1)
    support, query = [], []
    for c in selected.tolist():
        support.append(_choose(split.train[train_labels == c], balanced_shots, generator))
        query.append(_choose(split.test[test_labels == c], max_test_shots, generator))
    return _episode(support, query)


def use_all_task(labels: Tensor) -> Episode:
    """Return the task of Use All: support and query are all of D (classes with one image: support only)."""
    members = [torch.nonzero(labels == c).flatten() for c in torch.unique(labels).tolist()]
    return _episode(members, [group if len(group) > 1 else group[:0] for group in members])


def _with_query(selected: Tensor, classes: Tensor, test_labels: Tensor, generator: torch.Generator) -> Tensor:
    """Replace a class if no selected class has query images, as classes with a single image have none."""
    if bool(torch.isin(selected, test_labels).any()):
        return selected
    with_query = classes[torch.isin(classes, test_labels)]
    return torch.cat([selected[1:], _choose(with_query, 1, generator)])


def _choose(members: Tensor, count: int, generator: torch.Generator) -> Tensor:
    return members[permutation(len(members), generator)[:count]]


def _episode(support: list[Tensor], query: list[Tensor]) -> Episode:
    def labels(groups: list[Tensor]) -> Tensor:
        return torch.cat([torch.full_like(group, c) for c, group in enumerate(groups)])

    return Episode(torch.cat(support), labels(support), torch.cat(query), labels(query))
