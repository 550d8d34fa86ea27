"""Episodes: tasks for fine-tuning, sampled from the downstream data."""

from collections.abc import Iterator

from torch import Tensor

from ..seeding import make_generator
from .sample import MAX_QUERY, Episode, sample_task, use_all_task
from .split import SPLITS, Split, SplitName, choose_split, has_query_images, no_split, split_halves
from .videos import split_videos, video_episodes


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


__all__ = [
    "SPLITS",
    "Episode",
    "Split",
    "choose_split",
    "episodes",
    "split_halves",
    "sample_task",
    "split_videos",
    "has_query_images",
    "video_episodes",
    "no_split",
]
