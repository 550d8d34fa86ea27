"""Several processes with one store, and processes that are killed during a write."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from filmtransfer.serve.store import Store, StoreLocation, objects

from . import writer
from .conftest import files_of
from .kills import kill_writers

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


def test_the_store_is_as_acknowledged_after_every_kill(location: StoreLocation, opened, monkeypatch):
    """In short; benchmarks/kills.py kills a thousand times."""
    tally = kill_writers(location, 6, random.Random(0))
    assert (tally.kills, tally.acknowledged > 10) == (6, True)
    if location.objects:
        monkeypatch.setattr(objects, "MAX_WRITE_TIME", timedelta(0))
        opened(location)  # deletes what interrupted writes have left
        contents = 2 * len(tally.state.photos) + len(tally.state.versions)
        assert len(files_of(Path(location.objects))) == contents


def test_the_store_is_as_acknowledged_after_kills_of_the_database_server(cluster, tmp_path: Path):
    location = StoreLocation(cluster.fresh(), str(tmp_path / "objects"))
    tally = kill_writers(location, 2, random.Random(0), lambda: cluster.stop(crash=True), cluster.start)
    assert (tally.kills, tally.acknowledged > 0) == (2, True)


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
