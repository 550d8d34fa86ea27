"""Several processes with one store, and processes that are killed during a write."""

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

# Forked from a process that has no open database: SQLite's connections must not be used after a fork.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["tests.serve.store.writer"])


class Process:
    def __init__(
        self, work: Callable[[StoreLocation, str, Connection], None], location: StoreLocation, name: str
    ) -> None:
        self.receiver, sender = SERVER.Pipe(duplex=False)
        self.process = SERVER.Process(target=work, args=(location, name, sender))
        self.process.start()
        sender.close()

    def rest(self) -> list[Any]:
        """Return its remaining messages."""
        messages = []
        while True:
            try:
                messages.append(self.receiver.recv())
            except (EOFError, OSError):
                break
        self.receiver.close()
        self.process.join()
        return messages

    def killed_after(self, count: int) -> list[Any]:
        """Kill it after a number of messages, during the next write; return all messages."""
        messages = [self.receiver.recv() for _ in range(count)]
        self.process.kill()
        messages += self.rest()
        assert self.process.exitcode == -9
        return messages


@pytest.mark.parametrize("location", ["rows", "folder"], indirect=True)
def test_acknowledged_photos_survive_a_kill(location: StoreLocation, opened, tmp_path: Path):
    store: Store = opened(location)
    project = store.projects.resolve(store.users.create("Ann")[0].id)
    only = store.classes.add(project, "cat")
    acknowledged: dict[str, int] = {}
    for count in (1, 4, 9):
        acknowledged |= dict(Process(writer.add_photos, location, project).killed_after(count))
        again: Store = opened(location)
        there = {photo.id for photo in again.photos.all(project, only.id)}
        assert there >= set(acknowledged)
        assert len(there) <= len(acknowledged) + 3  # at most one without a message per round
        for id in there:
            content = again.photos.content(project, id)
            assert content == writer.bytes_of(acknowledged.get(id, int(content[:8])))
            assert again.photos.thumbnail(project, id) == b"small"
    if location.objects:  # incomplete objects are pending, and deleted by a later sweep
        orphans = len(files_of(tmp_path / "objects")) - 2 * len(there)
        assert orphans >= 0


@pytest.mark.parametrize("location", ["rows", "postgres"], indirect=True)
def test_acknowledged_versions_survive_a_kill(location: StoreLocation, opened):
    store: Store = opened(location)
    project = store.projects.resolve(store.users.create("Ann", Quota(versions=1000))[0].id)
    acknowledged: dict[int, int] = {}
    for count in (2, 7):
        messages = Process(writer.publish, location, project).killed_after(count)
        acknowledged |= {number: i for number, i in messages if i is not None}
        again: Store = opened(location)
        there = {version.number: version for version in again.versions.all(project)}
        assert set(there) >= set(acknowledged)
        assert sorted(there) == list(range(1, max(there) + 1))
        for number, i in acknowledged.items():
            assert again.versions.content(project, number) == writer.bytes_of(i)
        current = again.versions.current(project)
        assert current is not None
        last = messages[-1][0]
        assert current.number in (last, last - 1, last + 1)  # the last message, or one step further
        assert [v.number for v in there.values() if v.current] == [current.number]


@pytest.mark.parametrize("location", ["rows", "postgres"], indirect=True)
def test_two_workers_never_claim_the_same_training(location: StoreLocation, opened):
    store: Store = opened(location)
    asked = [
        store.trainings.request(store.projects.resolve(store.users.create("x")[0].id), {}).id
        for _ in range(30)
    ]
    processes = [Process(writer.take, location, name) for name in ("a", "b")]
    taken = [process.rest() for process in processes]
    assert [process.process.exitcode for process in processes] == [0, 0]
    assert sorted(taken[0] + taken[1]) == sorted(asked)
    assert store.trainings.count_waiting() == 0


@pytest.mark.parametrize("location", ["rows", "postgres"], indirect=True)
def test_processes_may_open_a_new_store_at_once(location: StoreLocation, opened):
    for _ in range(1 if "postgres" in location.database else 5):
        processes = [Process(writer.take, location, name) for name in "abc"]
        assert [process.rest() for process in processes] == [[]] * 3
        assert [process.process.exitcode for process in processes] == [0] * 3
        location = (
            replace(location, database=location.database + "x") if location.objects is None else location
        )
    opened(location).users.create("Ann")
