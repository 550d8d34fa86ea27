"""Functions for processes that write to a store and send what was acknowledged, until they are killed."""

from __future__ import annotations

import itertools
from multiprocessing.connection import Connection

from filmtransfer.serve.settings import LEASE
from filmtransfer.serve.store import ProjectId, Store, StoreLocation


def bytes_of(i: int) -> bytes:
    """Return enough bytes for a write to take a while."""
    return b"%08d" % i * 4000


def add_photos(location: StoreLocation, project: ProjectId, sender: Connection) -> None:
    store = Store.open(location)
    (only,) = store.classes.all(project)
    for i in itertools.count(len(store.photos.all(project))):
        photo, _ = store.photos.add(project, only.id, bytes_of(i), b"small", "image/png")
        sender.send((photo.id, i))


def publish(location: StoreLocation, project: ProjectId, sender: Connection) -> None:
    """Publish versions; every third time make the previous one current again."""
    store = Store.open(location)
    for i in itertools.count():
        made = store.versions.publish(project, bytes_of(i), "trained", {"i": i})
        sender.send((made.number, i))
        if i % 3 == 2:
            sender.send((store.versions.make_current(project, made.number - 1).number, None))


def take(location: StoreLocation, worker: str, sender: Connection) -> None:
    store = Store.open(location)
    while (training := store.trainings.claim(worker, LEASE)) is not None:
        store.trainings.end(training.id, worker, "done")
        sender.send(training.id)
    store.close()
