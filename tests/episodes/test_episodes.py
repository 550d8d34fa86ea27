"""Algorithms 1 and 2 of the paper: splits and sampled tasks, including classes with one image."""

from __future__ import annotations

from itertools import islice

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from filmtransfer.episodes import (
    choose_split,
    episodes,
    has_query_images,
    no_split,
    sample_task,
    split_halves,
)
from filmtransfer.errors import UsageError
from filmtransfer.seeding import make_generator

COUNTS = st.lists(st.integers(1, 12), min_size=2, max_size=12)


def labelled(counts: list[int], seed: int = 0) -> torch.Tensor:
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    return labels[torch.randperm(len(labels), generator=make_generator(seed, "test"))]


@settings(max_examples=60, deadline=None)
@given(COUNTS, st.integers(0, 1000))
def test_halves_are_disjoint_and_roughly_equal(counts, seed):
    labels = labelled(counts)
    split = split_halves(labels, make_generator(seed))
    indices = torch.cat([split.train, split.test])
    assert torch.equal(indices.sort().values, torch.arange(len(labels)))
    for c, count in enumerate(counts):
        train, test = (int((labels[part] == c).sum()) for part in (split.train, split.test))
        assert train == -(-count // 2)
        assert test == count // 2


@settings(max_examples=80, deadline=None)
@given(COUNTS, st.integers(2, 120), st.integers(0, 1000), st.booleans())
def test_sampled_tasks_follow_algorithm_2(counts, support_size, seed, split_first):
    labels = labelled(counts)
    generator = make_generator(seed)
    if not has_query_images(labels):
        return
    split = split_halves(labels, generator) if split_first else no_split(labels)
    task = sample_task(labels, split, support_size, generator, max_query=20)
    way = int(task.support_labels.max()) + 1
    assert min(len(counts), 5) <= way <= max(min(len(counts), support_size), min(len(counts), 5))
    assert torch.equal(torch.unique(task.support_labels), torch.arange(way))
    assert len(task.query) > 0
    shots = max(round(support_size / way), 1)
    for c in range(way):
        members = task.support[task.support_labels == c]
        (original,) = torch.unique(labels[members]).tolist()
        available = int((labels[split.train] == original).sum())
        assert len(members) == len(torch.unique(members)) == min(shots, available)
        queries = task.query[task.query_labels == c]
        assert set(labels[queries].tolist()) <= {original}
        assert len(queries) == min(int((labels[split.test] == original).sum()), max(20 // way, 1))
    if split_first:
        assert not set(task.support.tolist()) & set(task.query.tolist())


def test_one_shot_classes_are_support_only():
    labels = labelled([1, 1, 1, 1, 1, 1, 2])
    split = split_halves(labels, make_generator(0))
    for i in range(20):
        task = sample_task(labels, split, 100, make_generator(i))
        assert set(labels[task.query].tolist()) == {6}
    assert not has_query_images(labelled([1, 1, 1]))
    assert has_query_images(labels)


@pytest.mark.parametrize("split", ["no_split", "use_all", "split", "resplit"])
def test_one_shot_classes_are_never_in_the_query(split):
    labels = labelled([1, 4, 4])
    for task in take(labels, split, 6):
        assert set(labels[task.query].tolist()) <= {1, 2}
        assert 0 in labels[task.support].tolist()


def take(labels, split, count=4, seed=0):
    return list(islice(episodes(labels, split, 100, seed), count))


def test_split_is_drawn_once_and_resplit_every_step():
    labels = labelled([10] * 5)
    fixed = [set(t.support.tolist()) for t in take(labels, "split")]
    assert all(part == fixed[0] for part in fixed)
    resplit = [frozenset(t.support.tolist()) for t in take(labels, "resplit")]
    assert len(set(resplit)) == 4
    assert all(not s & set(t.query.tolist()) for s, t in zip(resplit, take(labels, "resplit"), strict=True))


def test_no_split_samples_from_all_images_and_use_all_uses_all():
    labels = labelled([10] * 5)
    tasks = take(labels, "no_split", 10)
    assert len(set().union(*(t.support.tolist() for t in tasks))) == 50
    for task in take(labels, "use_all"):
        assert torch.equal(task.support, task.query)
        assert len(task.support) == 50
        assert torch.equal(task.support_labels, labels[task.support])


def test_one_seed_gives_one_sequence_of_tasks():
    labels = labelled([6] * 7)
    for split in ("split", "no_split", "resplit"):
        first, second, other = take(labels, split), take(labels, split), take(labels, split, seed=1)
        assert all(torch.equal(a.support, b.support) for a, b in zip(first, second, strict=True))
        assert any(not torch.equal(a.support, b.support) for a, b in zip(first, other, strict=True))


def test_auto_depends_on_the_number_of_images():
    assert choose_split("auto", 999) == "resplit"
    assert choose_split("auto", 1000) == "no_split"
    assert choose_split("paper", 999) == "split"
    assert choose_split("paper", 1000) == "no_split"
    assert choose_split("split", 5) == "split"
    with pytest.raises(UsageError, match="resplit"):
        choose_split("thirds", 5)
