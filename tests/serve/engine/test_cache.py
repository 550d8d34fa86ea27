"""The cache: bounded, least recently used first, one load for all who wait."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from filmtransfer.errors import UpdateFileError, UsageError
from filmtransfer.serve.engine.cache import MB, Cache


@dataclass
class Weight:
    """Stands in for a member: all the cache asks of one is its size."""

    name: str
    nbytes: int = MB // 4


def test_it_is_bounded_and_the_longest_unused_goes_first():
    cache = Cache(1)
    for user in "abcd":
        cache.get((user, 1), lambda user=user: Weight(user))
    assert len(cache) == 4
    assert cache.nbytes == MB
    assert cache.get(("a", 1), pytest.fail).name == "a"  # used again, so b is next
    cache.get(("e", 1), lambda: Weight("e"))
    assert cache.nbytes == MB
    assert cache.get(("a", 1), pytest.fail).name == "a"
    assert cache.get(("b", 1), lambda: Weight("loaded again")).name == "loaded again"
    assert cache.hits == 2
    assert cache.misses == 6
    big = cache.get(("f", 1), lambda: Weight("f", 2 * MB))
    assert big.name == "f", "what does not fit is served, but not kept"
    assert len(cache) == 4
    with pytest.raises(UsageError):
        Cache(-1)


def test_versions_are_apart_and_users_can_be_dropped():
    cache = Cache(10)
    for version in (1, 2):
        cache.get(("a", version), lambda version=version: Weight(f"a{version}"))
    cache.get(("b", 1), lambda: Weight("b"))
    assert cache.get(("a", 2), pytest.fail).name == "a2"
    cache.drop("a")
    assert len(cache) == 1
    assert cache.nbytes == MB // 4
    assert cache.get(("a", 1), lambda: Weight("new")).name == "new"
    cache.drop("nobody")


def test_one_load_for_all_who_wait():
    cache, loads, begun, go = Cache(10), [], threading.Event(), threading.Event()

    def load() -> Weight:
        loads.append(1)
        begun.set()
        assert go.wait(10)
        return Weight("one")

    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(cache.get, ("a", 1), load) for _ in range(8)]
        assert begun.wait(10)
        assert cache.get(("b", 1), lambda: Weight("b")).name == "b", "other keys need not wait"
        go.set()
        found = {id(one.result(10)) for one in waiting}
    assert len(loads) == len(found) == 1


def test_an_error_is_shared_and_not_kept():
    cache = Cache(10)

    def fail() -> Weight:
        raise UpdateFileError("broken")

    with pytest.raises(UpdateFileError):
        cache.get(("a", 1), fail)
    assert cache.get(("a", 1), lambda: Weight("whole")).name == "whole"


def test_what_is_dropped_while_loading_does_not_come_back():
    cache = Cache(10)

    def load() -> Weight:
        cache.drop("a")
        return Weight("old")

    assert cache.get(("a", 1), load).name == "old"
    assert len(cache) == 0
    assert cache.get(("a", 1), lambda: Weight("new")).name == "new"
