"""After the deletion of a user, or of all the user's data, no file contains a byte of the photos, names or updates."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from filmtransfer.serve.settings import LEASE
from filmtransfer.serve.store import Store, StoreLocation

from .conftest import files_of


def noise(word: str, length: int) -> bytes:
    """Return bytes that occur nowhere else, as blocks of 32 that can be searched for."""
    blocks = (hashlib.sha256(f"{word} {i}".encode()).digest() for i in range(length // 32))
    return b"".join(blocks)


def fill(store: Store, name: str, photos: int) -> str:
    user = store.users.create(f"user {name}")[0].id
    project = store.projects.create(user, f"project {name}").id
    for k in range(3):
        one = store.classes.add(project, f"class {name} {k}")
        for i in range(photos):
            content = noise(f"{name} photo {k} {i}", 320 * (1 + 7 * i))
            store.photos.add(project, one.id, content, noise(f"{name} small {k} {i}", 640), "image/png")
    store.classes.rename(project, one.id, f"renamed {name}")
    for i in range(3):
        store.versions.publish(
            project, noise(f"{name} update {i}", 4096), "trained", {"classes": {f"summary {name}": i}}
        )
    store.trainings.request(project, {"note": f"option {name}"})
    taken = store.trainings.claim(f"worker {name}", LEASE)
    assert taken is not None
    store.trainings.add_event(taken.id, f"worker {name}", "progress", {"word": f"event {name}"})
    store.trainings.end(taken.id, f"worker {name}", "failed", f"message {name}")
    return user


def everything_in(root: Path) -> bytes:
    """Return the content of all files, read by another process: closing a file here would release SQLite's locks."""
    return subprocess.run(["cat", *map(str, files_of(root))], capture_output=True, check=True).stdout


def traces(root: Path, name: str, photos: int) -> list[str]:
    """Return what files still contain of the user."""
    everything = everything_in(root)
    words = ("project", "class", "renamed", "summary", "option", "worker", "event", "message")
    matches = [word for word in words if f"{word} {name}".encode() in everything]
    parts = [f"{name} update {i}" for i in range(3)]
    parts += [
        f"{name} {kind} {k} {i}" for kind in ("photo", "small") for k in range(3) for i in range(photos)
    ]
    for part in parts:
        matches += [part for i in range(3) if hashlib.sha256(f"{part} {i}".encode()).digest() in everything]
    return matches


@pytest.mark.process
@pytest.mark.parametrize("location", ["rows", "folder"], indirect=True)
@pytest.mark.parametrize("account", [True, False])
def test_no_file_contains_deleted_data(location: StoreLocation, opened, tmp_path: Path, account: bool):
    store: Store = opened(location)
    fill(store, "before", 2)
    deleted = fill(store, "deleted", 6)
    fill(store, "after", 2)
    beside: Store = opened(location)  # another process of the service, with connections of its own
    assert beside.users.get(deleted).name == "user deleted"
    assert len(traces(tmp_path, "deleted", 6)) > 100  # the search works
    if account:
        store.users.delete(deleted)
    else:
        store.users.start_over(deleted)
    assert traces(tmp_path, "deleted", 6) == []
    assert len(traces(tmp_path, "before", 2)) > 30
    assert len(beside.users.all()) == (2 if account else 3)
    assert (b"user deleted" in everything_in(tmp_path)) is not account
