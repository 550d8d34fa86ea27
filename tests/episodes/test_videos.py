"""Algorithm 3 against a line-by-line transcription, and properties for any clips."""

from __future__ import annotations

from itertools import islice

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from filmtransfer.episodes import split_videos, video_episodes
from filmtransfer.seeding import make_generator, permutation

# Classes, each a list of videos, each a number of clips.
CLIPS = st.lists(st.lists(st.integers(1, 7), min_size=1, max_size=5), min_size=2, max_size=6)


def flat(data: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the labels and video indices of the clips, one video after the other."""
    labels, videos, number = [], [], 0
    for c, counts in enumerate(data):
        for count in counts:
            labels += [c] * count
            videos += [number] * count
            number += 1
    return torch.tensor(labels), torch.tensor(videos)


def split_orbit_task(data: list[list[int]], batch_size: int, generator: torch.Generator):
    """Transcribe the algorithm line by line from the paper; clips are (c, i, j)."""

    def choose(n: int, m: int) -> list[int]:
        return permutation(n, generator)[:m].tolist()

    train, test = [], []
    num_clips = batch_size // len(data)
    for c, videos in enumerate(data):
        n = len(videos)
        num_context_videos = -(-n // 2)
        context_videos = choose(n, num_context_videos)
        num_clips_per_video = num_clips // num_context_videos
        if n == 1:
            context = choose(videos[0], num_clips_per_video)
            train += [(c, 0, j) for j in context]
            test += [(c, 0, j) for j in range(videos[0]) if j not in context]
        else:
            for i in context_videos:
                train += [(c, i, j) for j in choose(videos[i], num_clips_per_video)]
            for i in sorted(set(range(n)) - set(context_videos)):
                test += [(c, i, j) for j in range(videos[i])]
    return train, test


@settings(max_examples=80, deadline=None)
@given(CLIPS, st.integers(0, 10_000), st.integers(1, 4))
def test_equals_the_papers_algorithm_where_no_side_is_empty(data, seed, factor):
    largest = max(len(videos) for videos in data)
    batch_size = len(data) * (largest + 1) // 2 * factor + len(data)  # each support video gives a clip
    per_class = batch_size // len(data)
    if any(len(videos) == 1 and videos[0] <= per_class for videos in data):
        return  # the paper would use all clips of a single video as support; ours keeps one for the query
    labels, videos = flat(data)
    names = [(c, i, j) for c, counts in enumerate(data) for i, n in enumerate(counts) for j in range(n)]
    task = split_videos(labels, videos, batch_size, make_generator(seed, "test"))
    train, test = split_orbit_task(data, batch_size, make_generator(seed, "test"))
    assert [names[k] for k in task.support.tolist()] == train
    assert sorted(names[k] for k in task.query.tolist()) == sorted(test)


@settings(max_examples=80, deadline=None)
@given(CLIPS, st.integers(1, 60), st.integers(0, 10_000))
def test_support_and_query_of_any_clips(data, batch_size, seed):
    labels, videos = flat(data)
    task = split_videos(labels, videos, batch_size, make_generator(seed))
    support, query = set(task.support.tolist()), set(task.query.tolist())
    assert len(support) == len(task.support)
    assert len(query) == len(task.query)
    assert not support & query
    assert torch.equal(labels[task.support], task.support_labels)
    assert torch.equal(labels[task.query], task.query_labels)
    shared = set(videos[task.support].tolist()) & set(videos[task.query].tolist())
    for c, counts in enumerate(data):
        assert int((task.support_labels == c).sum()) >= 1
        assert int((task.query_labels == c).sum()) >= (1 if sum(counts) > 1 else 0)
        own = set(videos[labels == c].tolist())
        assert not (shared & own) or len(own) == 1  # only a single video can be on both sides
    limited = split_videos(labels, videos, batch_size, make_generator(seed), max_query=len(data))
    assert all(int((limited.query_labels == c).sum()) <= 1 for c in range(len(data)))


def test_a_new_task_for_each_step_or_one_for_all():
    labels, videos = flat([[4, 4, 4], [4, 4], [5]])
    first, *others = islice(video_episodes(labels, videos, 12, 3), 6)
    assert any(not torch.equal(first.support, other.support) for other in others)
    again = next(video_episodes(labels, videos, 12, 3))
    assert torch.equal(first.support, again.support)
    fixed = list(islice(video_episodes(labels, videos, 12, 3, once=True), 4))
    assert all(torch.equal(fixed[0].query, task.query) for task in fixed)


def test_labels_may_have_gaps():
    labels, videos = flat([[3, 3], [3, 3]])
    task = split_videos(labels * 7 + 2, videos, 4, make_generator(0))
    assert torch.equal(torch.unique(task.support_labels), torch.arange(2))
    assert torch.equal(labels[task.query], task.query_labels)
