"""Algorithm 3: a task for fine-tuning out of clips, such that no video is on both sides.

Clips of one video look alike: a query clip whose neighbours are in the support set says little. So half of the
videos of each class give the support clips, and the others the query clips; only the clips of a class with one video
are divided among the two.
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
    """``labels`` (N) and ``videos`` (N) say of which class and of which video each clip is.

    Where the algorithm would leave a side of a class empty it gives one clip: each support video gives at least one,
    and a single video of two clips or more keeps one for the query.
    """
    classes = torch.unique(labels).tolist()
    num_clips = batch_size // len(classes)
    support, query = [], []
    for c in classes:
        members = torch.nonzero(labels == c).flatten()
        of_class = torch.unique(videos[members])
        context = (len(of_class) + 1) // 2  # ⌈n_c / 2⌉
        order = of_class[permutation(len(of_class), generator)]
        per_video = max(num_clips // context, 1)
        own: list[Tensor] = []
        for video in order[:context].tolist():
            clips = members[videos[members] == video]
            shuffled = clips[permutation(len(clips), generator)]
            keep = 1 if len(of_class) == 1 and len(clips) > 1 else 0
            count = min(per_video, len(clips) - keep)
            support.append((c, shuffled[:count]))
            if len(of_class) == 1:
                own.append(shuffled[count:])
        others = members[torch.isin(videos[members], order[context:])]
        asked = torch.cat([*own, others])
        room = max(max_query // len(classes), 1)
        if len(asked) > room:
            asked = asked[permutation(len(asked), generator)[:room]]
        query.append((c, asked))
    return Episode(*_numbered(support, classes), *_numbered(query, classes))


def video_episodes(
    labels: Tensor,
    videos: Tensor,
    batch_size: int,
    seed: int,
    *,
    once: bool = False,
    max_query: int = MAX_QUERY,
) -> Iterator[Episode]:
    """An endless sequence of tasks: divided anew for each step, or ``once`` for all."""
    generator = make_generator(seed, "videos")
    task = split_videos(labels, videos, batch_size, generator, max_query)
    while True:
        yield task
        if not once:
            task = split_videos(labels, videos, batch_size, generator, max_query)


def _numbered(groups: list[tuple[int, Tensor]], classes: list[int]) -> tuple[Tensor, Tensor]:
    """The clips, and labels 0 … C−1."""
    place = {c: i for i, c in enumerate(classes)}
    clips = [members for _, members in groups]
    return torch.cat(clips), torch.cat([torch.full_like(m, place[c]) for c, m in groups])
