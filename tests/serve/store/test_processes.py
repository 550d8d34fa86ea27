"""Several processes at one store, and processes that are killed in the middle of a write."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from filmtransfer.serve.store import Quota, Store, StoreLocation

from . import writer
from .conftest import files_of

pytestmark = pytest.mark.process

# Forked from a process that has imported everything and opened nothing: SQLite's handles must not cross a fork.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["tests.serve.store.writer"])


class Process:
    def __init__(
        self, work: Callable[[StoreLocation, str, Connection], None], place: StoreLocation, name: str
    ) -> None:
        self.heard, said = SERVER.Pipe(duplex=False)
        self.process = SERVER.Process(target=work, args=(place, name, said))
        self.process.start()
        said.close()

    def rest(self) -> list[Any]:
        """All that it still says, up to its end."""
        found = []
        while True:
            try:
                found.append(self.heard.recv())
            except (EOFError, OSError):
                break
        self.heard.close()
        self.process.join()
        return found

    def killed_after(self, count: int) -> list[Any]:
        """What it had said when it was killed in the middle of the next write."""
        said = [self.heard.recv() for _ in range(count)]
        self.process.kill()
        said += self.rest()
        assert self.process.exitcode == -9
        return said


@pytest.mark.parametrize("place", ["rows", "folder"], indirect=True)
def test_acknowledged_photos_survive_a_kill(place: StoreLocation, opened, tmp_path: Path):
    store: Store = opened(place)
    user = store.users.create("Ann")[0].id
    only = store.classes.add(user, "cat")
    acknowledged: dict[str, int] = {}
    for count in (1, 4, 9):
        acknowledged |= dict(Process(writer.add_photos, place, user).killed_after(count))
        again: Store = opened(place)
        there = {photo.id for photo in again.photos.all(user, only.id)}
        assert there >= set(acknowledged)
        assert len(there) <= len(acknowledged) + 3  # at most one unheard in each round
        for id in there:
            content = again.photos.content(user, id)
            assert content == writer.bytes_of(acknowledged.get(id, int(content[:8])))
            assert again.photos.thumbnail(user, id) == b"small"
    if place.objects:  # what was half-written is known, and goes once its time has passed
        orphans = len(files_of(tmp_path / "objects")) - 2 * len(there)
        assert orphans >= 0


@pytest.mark.parametrize("place", ["rows", "postgres"], indirect=True)
def test_acknowledged_versions_survive_a_kill(place: StoreLocation, opened):
    store: Store = opened(place)
    user = store.users.create("Ann", Quota(versions=1000))[0].id
    acknowledged: dict[int, int] = {}
    for count in (2, 7):
        said = Process(writer.publish, place, user).killed_after(count)
        acknowledged |= {number: i for number, i in said if i is not None}
        again: Store = opened(place)
        there = {version.number: version for version in again.versions.all(user)}
        assert set(there) >= set(acknowledged)
        assert sorted(there) == list(range(1, max(there) + 1))
        for number, i in acknowledged.items():
            assert again.versions.content(user, number) == writer.bytes_of(i)
        current = again.versions.current(user)
        assert current is not None
        last = said[-1][0]
        assert current.number in (last, last - 1, last + 1)  # what was said last, or one unheard step on
        assert [v.number for v in there.values() if v.current] == [current.number]


@pytest.mark.parametrize("place", ["rows", "postgres"], indirect=True)
def test_two_workers_never_take_the_same_training(place: StoreLocation, opened):
    store: Store = opened(place)
    asked = [store.trainings.request(store.users.create("x")[0].id, {}).id for _ in range(30)]
    processes = [Process(writer.take, place, name) for name in ("a", "b")]
    taken = [process.rest() for process in processes]
    assert [process.process.exitcode for process in processes] == [0, 0]
    assert sorted(taken[0] + taken[1]) == sorted(asked)
    assert store.trainings.count_waiting() == 0


@pytest.mark.parametrize("place", ["rows", "postgres"], indirect=True)
def test_processes_may_open_a_new_store_at_once(place: StoreLocation, opened):
    for _ in range(1 if "postgres" in place.database else 5):
        processes = [Process(writer.take, place, name) for name in "abc"]
        assert [process.rest() for process in processes] == [[]] * 3
        assert [process.process.exitcode for process in processes] == [0] * 3
        place = replace(place, database=place.database + "x") if place.objects is None else place
    opened(place).users.create("Ann")
