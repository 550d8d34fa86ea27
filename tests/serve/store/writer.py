"""What a process of its own does to a store: it writes for ever and says what was acknowledged, until it is killed."""

from __future__ import annotations

import itertools
from multiprocessing.connection import Connection

from filmtransfer.serve.store import Store, StoreLocation


def bytes_of(i: int) -> bytes:
    """So many that a write takes a while."""
    return b"%08d" % i * 4000


def add_photos(place: StoreLocation, user: str, said: Connection) -> None:
    store = Store.open(place)
    (only,) = store.classes.all(user)
    for i in itertools.count(len(store.photos.all(user))):
        photo = store.photos.add(user, only.id, bytes_of(i), b"small", "image/png")
        said.send((photo.id, i))


def publish(place: StoreLocation, user: str, said: Connection) -> None:
    """Every third time the one before becomes current again."""
    store = Store.open(place)
    for i in itertools.count():
        made = store.versions.publish(user, bytes_of(i), "trained", {"i": i})
        said.send((made.number, i))
        if i % 3 == 2:
            said.send((store.versions.make_current(user, made.number - 1).number, None))


def take(place: StoreLocation, worker: str, said: Connection) -> None:
    store = Store.open(place)
    while (training := store.trainings.claim(worker)) is not None:
        store.trainings.end(training.id, worker, "done")
        said.send(training.id)
    store.close()
