"""Episodes: how the downstream data become tasks for fine-tuning."""

from collections.abc import Iterator

import torch
from torch import Tensor

from ..seeding import make_generator
from .sample import MAX_QUERY, Episode, sample_task, whole_task
from .split import SPLITS, Split, SplitName, choose_split, halves, trainable, whole
from .videos import split_videos, video_episodes


def episodes(
    labels: Tensor, split: SplitName, support_size: int, seed: int, max_query: int = MAX_QUERY
) -> Iterator[Episode]:
    """An endless sequence of tasks from one seed."""
    splits: torch.Generator = make_generator(seed, "split")
    tasks = make_generator(seed, "tasks")
    parts = halves(labels, splits) if split == "split" else whole(labels)
    while True:
        if split == "use_all":
            yield whole_task(labels)
            continue
        if split == "resplit":
            parts = halves(labels, splits)
        yield sample_task(labels, parts, support_size, tasks, max_query)


__all__ = [
    "MAX_QUERY",
    "SPLITS",
    "Episode",
    "Split",
    "SplitName",
    "choose_split",
    "episodes",
    "halves",
    "sample_task",
    "split_videos",
    "trainable",
    "video_episodes",
    "whole",
    "whole_task",
]
