"""Delete-my-data: afterwards no file holds a byte of the photos, names or updates."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from filmtransfer.serve.store import Store, StoreLocation

from .conftest import files_of


def noise(word: str, length: int) -> bytes:
    """Bytes that come from nowhere else; every stretch of 32 of them is found again by its block."""
    blocks = (hashlib.sha256(f"{word} {i}".encode()).digest() for i in range(length // 32))
    return b"".join(blocks)


def fill(store: Store, name: str, photos: int) -> str:
    user = store.users.create(f"user {name}")[0].id
    for k in range(3):
        one = store.classes.add(user, f"class {name} {k}")
        for i in range(photos):
            content = noise(f"{name} photo {k} {i}", 320 * (1 + 7 * i))
            store.photos.add(user, one.id, content, noise(f"{name} small {k} {i}", 640), "image/png")
    store.classes.rename(user, one.id, f"renamed {name}")
    for i in range(3):
        store.versions.publish(
            user, noise(f"{name} update {i}", 4096), "trained", {"classes": {f"summary {name}": i}}
        )
    store.trainings.request(user, {"note": f"option {name}"})
    taken = store.trainings.claim(f"worker {name}")
    assert taken is not None
    store.trainings.add_event(taken.id, f"worker {name}", "progress", {"word": f"event {name}"})
    store.trainings.end(taken.id, f"worker {name}", "failed", f"message {name}")
    return user


def traces(root: Path, name: str, photos: int) -> list[str]:
    """What of the user can still be found in any file."""
    everything = subprocess.run(  # by another process: our closing a file would drop SQLite's locks on it
        ["cat", *map(str, files_of(root))], capture_output=True, check=True
    ).stdout
    words = ("user", "class", "renamed", "summary", "option", "worker", "event", "message")
    found = [word for word in words if f"{word} {name}".encode() in everything]
    parts = [f"{name} update {i}" for i in range(3)]
    parts += [
        f"{name} {kind} {k} {i}" for kind in ("photo", "small") for k in range(3) for i in range(photos)
    ]
    for part in parts:
        found += [part for i in range(3) if hashlib.sha256(f"{part} {i}".encode()).digest() in everything]
    return found


@pytest.mark.process
@pytest.mark.parametrize("place", ["rows", "folder"], indirect=True)
def test_nothing_is_left_in_any_file(place: StoreLocation, opened, tmp_path: Path):
    store: Store = opened(place)
    fill(store, "before", 2)
    gone = fill(store, "gone", 6)
    fill(store, "after", 2)
    beside: Store = opened(place)  # another process of the service, with connections of its own
    assert beside.users.get(gone).name == "user gone"
    assert len(traces(tmp_path, "gone", 6)) > 100  # the search can find
    store.users.delete(gone)
    assert traces(tmp_path, "gone", 6) == []
    assert len(traces(tmp_path, "before", 2)) > 30
    assert len(beside.users.all()) == 2
