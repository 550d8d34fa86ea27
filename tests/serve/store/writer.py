"""What processes write to a store in tests."""

from __future__ import annotations

from multiprocessing.connection import Connection

from filmtransfer.serve.settings import LEASE
from filmtransfer.serve.store import Store, StoreLocation


def bytes_of(i: int) -> bytes:
    """Return enough bytes for a write to take a while."""
    return b"%08d" % i * 4000


def take(location: StoreLocation, worker: str, sender: Connection) -> None:
    store = Store.open(location)
    while (training := store.trainings.claim(worker, LEASE)) is not None:
        store.trainings.end(training.id, worker, "done")
        sender.send(training.id)
    store.close()
