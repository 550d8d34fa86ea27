"""The cache: bounded, least recently used first, one load for concurrent requests."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from filmtransfer.errors import UpdateFileError, UsageError
from filmtransfer.serve.engine.cache import MB, Cache


@dataclass
class Weight:
    """A substitute for a member: the cache needs only its size."""

    name: str
    nbytes: int = MB // 4


def test_the_least_recently_used_member_is_removed_first():
    cache = Cache(1)
    for user in "abcd":
        cache.get((user, "project", 1), lambda user=user: Weight(user))
    assert len(cache) == 4
    assert cache.nbytes == MB
    assert cache.get(("a", "project", 1), pytest.fail).name == "a"  # used again, so b is removed next
    cache.get(("e", "project", 1), lambda: Weight("e"))
    assert cache.nbytes == MB
    assert cache.get(("a", "project", 1), pytest.fail).name == "a"
    assert cache.get(("b", "project", 1), lambda: Weight("loaded again")).name == "loaded again"
    assert cache.hits == 2
    assert cache.misses == 6
    big = cache.get(("f", "project", 1), lambda: Weight("f", 2 * MB))
    assert big.name == "f", "what does not fit is served, but not kept"
    assert len(cache) == 4
    with pytest.raises(UsageError):
        Cache(-1)


def test_versions_are_separate_and_projects_and_users_can_be_dropped():
    cache = Cache(10)
    for version in (1, 2):
        cache.get(("a", "project", version), lambda version=version: Weight(f"a{version}"))
    cache.get(("a", "other", 1), lambda: Weight("another project"))
    cache.get(("b", "project", 1), lambda: Weight("b"))
    assert cache.get(("a", "project", 2), pytest.fail).name == "a2"
    cache.drop("a", "project")
    assert len(cache) == 2
    assert cache.get(("a", "other", 1), pytest.fail).name == "another project"
    cache.drop("b", "other")
    assert len(cache) == 2
    cache.drop("a")
    assert len(cache) == 1
    assert cache.nbytes == MB // 4
    assert cache.get(("a", "project", 1), lambda: Weight("new")).name == "new"
    cache.drop("nobody")


def test_concurrent_requests_share_one_load():
    cache, loads, begun, go = Cache(10), [], threading.Event(), threading.Event()

    def load() -> Weight:
        loads.append(1)
        begun.set()
        assert go.wait(10)
        return Weight("one")

    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(cache.get, ("a", "project", 1), load) for _ in range(8)]
        assert begun.wait(10)
        assert cache.get(("b", "project", 1), lambda: Weight("b")).name == "b", "other keys need not wait"
        go.set()
        members = {id(one.result(10)) for one in waiting}
    assert len(loads) == len(members) == 1


def test_an_error_is_not_cached():
    cache = Cache(10)

    def fail() -> Weight:
        raise UpdateFileError("broken")

    with pytest.raises(UpdateFileError):
        cache.get(("a", "project", 1), fail)
    assert cache.get(("a", "project", 1), lambda: Weight("whole")).name == "whole"


def test_a_member_dropped_while_loading_is_not_cached():
    cache = Cache(10)

    def load() -> Weight:
        cache.drop("a")
        return Weight("old")

    assert cache.get(("a", "project", 1), load).name == "old"
    assert len(cache) == 0
    assert cache.get(("a", "project", 1), lambda: Weight("new")).name == "new"
