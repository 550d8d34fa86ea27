"""Algorithm 3 of the paper: sample a task from video clips, with no video in both support and query.

Clips of one video look alike, so that a query clip whose neighbours are in the support set says little. Half of the
videos of each class are sampled for the support clips and the other videos for the query clips; only the clips of a
class with a single video are divided between the two.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ..seeding import make_generator, permutation
from .sample import MAX_QUERY, Episode


def split_videos(
    labels: Tensor, videos: Tensor, batch_size: int, generator: torch.Generator, max_query: int = MAX_QUERY
) -> Episode:
    """Return a task from clips with the given labels (N) and video indices (N).

    Unlike in the paper, support and query of a class are not empty if it has enough clips: each support video gives
    at least one clip, and a single video of two or more clips keeps one for the query.
    """
    classes = torch.unique(labels)
    clips_per_class = batch_size // len(classes)
    queries_per_class = max(max_query // len(classes), 1)
    support, query = [], []
    for c in classes.tolist():
        members = torch.nonzero(labels == c).flatten()
        class_videos = torch.unique(videos[members])
        support_count = (len(class_videos) + 1) // 2  # ⌈n_c / 2⌉
        order = class_videos[permutation(len(class_videos), generator)]
        clips_per_video = max(clips_per_class // support_count, 1)
        candidates = members[torch.isin(videos[members], order[support_count:])]
        for video in order[:support_count].tolist():
            clips = members[videos[members] == video]
            shuffled = clips[permutation(len(clips), generator)]
            is_single = len(class_videos) == 1
            count = min(clips_per_video, len(clips) - (1 if is_single and len(clips) > 1 else 0))
            support.append(shuffled[:count])
            if is_single:
                candidates = shuffled[count:]
        if len(candidates) > queries_per_class:
            candidates = candidates[permutation(len(candidates), generator)[:queries_per_class]]
        query.append(candidates)
    indices = [torch.cat(support), torch.cat(query)]
    support_labels, query_labels = (torch.searchsorted(classes, labels[index]) for index in indices)
    return Episode(indices[0], support_labels, indices[1], query_labels)


def video_episodes(
    labels: Tensor,
    videos: Tensor,
    batch_size: int,
    seed: int,
    *,
    once: bool = False,
    max_query: int = MAX_QUERY,
) -> Iterator[Episode]:
    """Yield tasks without end: a new one for each step, or the same one if ``once``."""
    generator = make_generator(seed, "videos")
    task = split_videos(labels, videos, batch_size, generator, max_query)
    while True:
        yield task
        if not once:
            task = split_videos(labels, videos, batch_size, generator, max_query)
