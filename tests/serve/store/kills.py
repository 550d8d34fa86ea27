"""Kill a process that writes to a store at any moment, and compare the store with what was acknowledged.

Before each write the process sends what it is about to do, and after it that it is done. So after the kill the store has
exactly one of two states: that after all acknowledged writes, or that with the one write that was under way.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import random
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import reduce
from multiprocessing.connection import Connection
from typing import NamedTuple

from filmtransfer.serve.settings import LEASE
from filmtransfer.serve.store import Photo, ProjectId, Quota, Store, StoreLocation, StoreUnavailableError
from filmtransfer.serve.store.trainings import MAX_TRAININGS

from .writer import bytes_of

WORKER = "a worker"
KEPT = 12  # photos and versions, about which the number of each varies
MAX_WRITES = 20  # of one process
MAX_DELAY = 0.02  # seconds until a kill
OPENED = "opened"  # the first message of a writer

# Forked from a process that has no open database: SQLite's connections must not be used after a fork.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload([__name__])


class Write(NamedTuple):
    """A write: its kind, and the number of what it is about."""

    kind: str
    number: int


@dataclass(frozen=True)
class State:
    """What a project contains, by number; every number is used once."""

    photos: dict[int, bool] = field(default_factory=dict)  # whether it is in the second class
    versions: frozenset[int] = frozenset()
    trainings: dict[int, tuple[str, int]] = field(default_factory=dict)  # state, and number of events

    def after(self, write: Write) -> State:
        """Return the state after a write."""
        kind, number = write
        photos, versions, trainings = dict(self.photos), set(self.versions), dict(self.trainings)
        if kind in ("add photo", "move photo"):
            photos[number] = not photos.get(number, True)
        elif kind == "delete photo":
            del photos[number]
        elif kind == "publish":
            versions.add(number)
        elif kind == "delete version":
            versions.remove(number)
        elif kind == "request":
            trainings[number] = ("waiting", 0)
            trainings = dict(sorted(trainings.items())[-MAX_TRAININGS:])
        elif kind == "claim":
            trainings[number] = ("running", trainings[number][1])
        elif kind == "event":
            trainings[number] = ("running", trainings[number][1] + 1)
        else:
            trainings[number] = ("done", trainings[number][1] + 1)
        return State(photos, frozenset(versions), trainings)

    def next_write(self, number: int, generator: random.Random) -> Write:
        """Return a write that this state allows; ``number`` is a new one."""
        kinds = ["photo", "version", "training"]
        kind = generator.choice(kinds)
        if kind == "photo":
            if len(self.photos) < generator.randrange(1, 2 * KEPT):
                return Write("add photo", number)
            return Write(
                generator.choice(["move photo", "delete photo"]), generator.choice(sorted(self.photos))
            )
        if kind == "version":
            old = sorted(self.versions)[:-1]  # the last one is the current one
            few = len(self.versions) < generator.randrange(2, 2 * KEPT)
            return Write("publish", number) if few else Write("delete version", generator.choice(old))
        active = [(n, state) for n, (state, _) in self.trainings.items() if state != "done"]
        if not active:
            return Write("request", number)
        training, state = active[0]
        if state == "waiting":
            return Write("claim", training)
        return Write(generator.choice(["event", "event", "end"]), training)


class Contents:
    """What a store contains of one project, by number."""

    def __init__(self, store: Store, project: ProjectId) -> None:
        self.store, self.project = store, project
        self.classes = [image_class.id for image_class in store.classes.all(project)]

    def read(self) -> State:
        """Return the state of the project, after a check of the bytes of all photos and versions."""
        store, project = self.store, self.project
        photos = {}
        for photo in store.photos.all(project):
            content = store.photos.content(project, photo.id)
            assert content == bytes_of(int(content[:8]))
            assert store.photos.thumbnail(project, photo.id) == b"small"
            photos[int(content[:8])] = photo.class_id == self.classes[1]
        versions = store.versions.all(project)  # the newest first
        for version in versions:
            assert store.versions.content(project, version.number) == bytes_of(version.summary["i"])
            assert version.current == (version == versions[0])
        trainings = {
            training.options["i"]: (training.state, len(store.trainings.events(project, training.id)))
            for training in store.trainings.all(project)
        }
        return State(photos, frozenset(version.summary["i"] for version in versions), trainings)

    def write(self, write: Write) -> None:
        """Do a write."""
        kind, i = write
        store, project = self.store, self.project
        if kind == "add photo":
            store.photos.add(project, self.classes[0], bytes_of(i), b"small", "image/png")
        elif kind == "move photo":
            photo = self._photo(i)
            store.photos.move(project, photo.id, self.classes[photo.class_id == self.classes[0]])
        elif kind == "delete photo":
            store.photos.delete(project, self._photo(i).id)
        elif kind == "publish":
            store.versions.publish(project, bytes_of(i), "trained", {"i": i})
        elif kind == "delete version":
            (number,) = (v.number for v in store.versions.all(project) if v.summary["i"] == i)
            store.versions.delete(project, number)
        elif kind == "request":
            store.trainings.request(project, {"i": i})
        elif kind == "claim":
            assert store.trainings.claim(WORKER, LEASE) is not None
        elif kind == "event":
            store.trainings.add_event(self._training(i), WORKER, "progress", {})
        else:
            store.trainings.end(self._training(i), WORKER, "done")

    def _photo(self, i: int) -> Photo:
        digest = hashlib.sha256(bytes_of(i)).hexdigest()
        (photo,) = (photo for photo in self.store.photos.all(self.project) if photo.digest == digest)
        return photo

    def _training(self, i: int) -> str:
        (id,) = (t.id for t in self.store.trainings.all(self.project) if t.options["i"] == i)
        return id


def keep_writing(location: StoreLocation, project: ProjectId, first: int, sender: Connection) -> None:
    """Write until killed, or until the database goes away; ``first`` is the first new number."""
    generator = random.Random(first)
    contents = Contents(Store.open(location), project)
    state = contents.read()
    sender.send(OPENED)
    with suppress(StoreUnavailableError):
        for number in range(first, first + 1_000_000):
            write = state.next_write(number, generator)
            sender.send(write)
            contents.write(write)
            sender.send(None)
            state = state.after(write)


@dataclass
class Tally:
    """What happened in all cycles, and the state after the last one."""

    kills: int = 0
    acknowledged: int = 0  # writes
    interrupted: int = 0  # writes that were under way at a kill
    completed: int = 0  # of those, which had taken effect
    state: State = field(default_factory=State)


class Writer:
    """A process that writes, and what it has acknowledged."""

    def __init__(self, location: StoreLocation, project: ProjectId, first: int) -> None:
        self.receiver, sender = SERVER.Pipe(duplex=False)
        self.process = SERVER.Process(target=keep_writing, args=(location, project, first, sender))
        self.process.start()
        sender.close()
        assert self.receiver.recv() == OPENED
        self.done: list[Write] = []
        self.under_way: Write | None = None

    def receive(self) -> None:
        """Receive the next message."""
        message = self.receiver.recv()
        if message is None:
            assert self.under_way is not None
            self.done.append(self.under_way)
        self.under_way = message

    def end(self) -> int | None:
        """Receive the remaining messages; return the exit code."""
        with suppress(EOFError, OSError):
            while True:
                self.receive()
        self.receiver.close()
        self.process.join()
        return self.process.exitcode


def kill_writers(
    location: StoreLocation,
    kills: int,
    generator: random.Random,
    kill: Callable[[], None] | None = None,
    recover: Callable[[], None] = lambda: None,
) -> Tally:
    """Kill a writer after some writes, or what ``kill`` kills instead; check the store; and so on with a new writer."""
    tally = Tally()
    with closing(Store.open(location)) as store:
        project = store.projects.resolve(store.users.create("Ann", Quota(versions=1000))[0].id)
        for name in ("cat", "dog"):
            store.classes.add(project, name)
    for i in range(kills):
        writer = Writer(location, project, (i + 1) * 10_000)
        for _ in range(generator.randrange(2 * MAX_WRITES)):  # a write is two messages
            writer.receive()
        time.sleep(generator.uniform(0, MAX_DELAY))
        (kill or writer.process.kill)()
        assert writer.end() == (-9 if kill is None else 0)
        recover()
        expected = reduce(State.after, writer.done, tally.state)
        with closing(
            Store.open(location)
        ) as store:  # after the last connection has died: SQLite recovers its log
            tally.state = Contents(store, project).read()
        if writer.under_way is not None:
            tally.interrupted += 1
            if tally.state != expected:
                expected = expected.after(writer.under_way)
                tally.completed += 1
        assert tally.state == expected, f"kill {i} during {writer.under_way}"
        tally.kills += 1
        tally.acknowledged += len(writer.done)
    return tally
