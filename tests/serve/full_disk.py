"""Disks that are really full: small file systems in memory, which nobody but this process and its children sees.

    unshare --mount python -m tests.serve.full_disk FOLDER CASE…

mounts them below a folder, in which they disappear with the process.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import func, select

from filmtransfer.serve.log_file import LogFile
from filmtransfer.serve.settings import LEASE, ServiceSettings
from filmtransfer.serve.store import (
    ProjectId,
    Quota,
    Store,
    StoreError,
    StoreFullError,
    StoreLocation,
    tables,
)

from .service_process import Serving, fill, user_of

MEGABYTES = 48  # the reserve for deletions has 16
PHOTO = bytes(range(256)) * 400
names = count()


class Disk:
    """A small file system that can be filled."""

    def __init__(self, path: Path, megabytes: int = MEGABYTES) -> None:
        path.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path)], check=True)
        self.path = path
        self.ballast = path / "ballast"

    def fill(self) -> None:
        """Leave not a byte."""
        size = 1 << 20
        with self.ballast.open("ab", buffering=0) as file:
            while size:
                try:
                    file.write(bytes(size))
                except OSError:
                    size //= 2

    def empty(self) -> None:
        self.ballast.unlink()


class Content:
    """A user with one of everything that can be deleted."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.user = store.users.create("Ann", Quota(photos=10_000))[0].id
        self.projects = [store.projects.create(self.user, str(i)).id for i in range(2)]
        self.project = self.projects[0]
        for project in self.projects:
            for i in range(2):
                self.add(project, store.classes.add(project, str(i)).id, 3)
            for _ in range(2):
                store.versions.publish(project, PHOTO, "trained", {})
        self.classes = [one.id for one in store.classes.all(self.project)]
        self.photos = [one.id for one in store.photos.all(self.project, self.classes[0])]

    def add(self, project: ProjectId, class_id: str, photos: int = 1) -> None:
        for _ in range(photos):
            content = b"%d" % next(names) + PHOTO
            self.store.photos.add(project, class_id, content, b"small", "image/png")

    def deletions(self) -> list[Callable[[], None]]:
        store, project = self.store, self.project
        return [
            lambda: store.photos.delete(project, self.photos[0]),
            lambda: store.classes.delete(project, self.classes[1]),
            lambda: store.versions.delete(project, 1),
            lambda: store.projects.delete(self.user, self.projects[1]),
            lambda: store.users.start_over(self.user),
            lambda: store.users.delete(self.user),
        ]


def stores(folder: Path) -> None:
    """Delete everything from full disks: that of the database, that of the objects, both, and one for both."""
    for case in ("database", "objects", "both", "one", "rows"):
        disks = first, second = Disk(folder / f"{case} 1"), Disk(folder / f"{case} 2")
        if case == "one":
            location = StoreLocation.of(first.path / "store")
        else:
            objects = None if case == "rows" else str(second.path / "objects")
            location = StoreLocation(f"sqlite:///{first.path}/fit.db", objects)
        empty_and_use(location, {"objects": [second], "both": list(disks)}.get(case, [first]))


def empty_and_use(location: StoreLocation, full: list[Disk]) -> None:
    store = Store.open(location)
    content, other = Content(store), Content(store)
    refused = 0
    while refused < 3:  # the log has room for the first ones
        for disk in full:
            disk.fill()
        try:
            content.add(content.project, content.classes[0])
        except StoreError:
            refused += 1
    for delete in content.deletions():
        for disk in full:
            disk.fill()
        delete()
    for disk in full:
        disk.fill()
    store.close()
    store = Store.open(location)  # on the full disk
    assert [user.id for user in store.users.all()] == [other.user]
    other.store = store
    for delete in other.deletions():
        for disk in full:
            disk.fill()
        delete()
    assert store.users.all() == []
    for disk in full:
        os.truncate(disk.ballast, 1 << 20)
    again = Content(store)  # the same process works again
    store.users.delete(again.user)
    store.close()


def large(folder: Path) -> None:
    """Delete objects from the rows of a database that are larger than the reserve, and leave nothing of them."""
    disk = Disk(folder / "large", 300)
    location = StoreLocation(f"sqlite:///{disk.path}/fit.db")
    store = Store.open(location)
    user = store.users.create("Ann", Quota(bytes=10**9))[0].id
    project = store.projects.resolve(user)
    only = store.classes.add(project, "cat")
    contents = [bytes([i]) * ServiceSettings.max_photo_bytes for i in range(1, 4)]
    photos = [store.photos.add(project, only.id, one, b"small", "image/png")[0].id for one in contents]
    store.versions.publish(project, bytes([9]) * ServiceSettings.max_update_bytes, "uploaded", {})
    deletions = [lambda: store.photos.delete(project, photos[0]), lambda: store.users.delete(user)]
    for traces, deletion in (((1,), deletions[0]), ((1, 2, 3, 9), deletions[1])):
        assert store.database.empty_log()
        disk.fill()
        try:
            store.photos.add(project, only.id, contents[0] + b"more", b"small", "image/png")
            pytest.fail("The disk is not full.")
        except StoreFullError:
            pass
        deletion()
        assert store.database.empty_log()
        with store.database.read() as connection:
            assert connection.execute(select(func.count()).select_from(tables.pending)).scalar_one() == 0
        for file in disk.path.glob("fit.db*"):
            stored = file.read_bytes()
            assert not [one for one in traces if bytes([one]) * 1000 in stored], file
    assert store.users.all() == []
    store.close()


def trainings(folder: Path) -> None:
    """End and cancel trainings on a full disk."""
    disk = Disk(folder / "trainings")
    store = Store.open(StoreLocation.of(disk.path / "store"))
    for end in ("done", "failed", "cancelled", "released"):
        project = store.projects.resolve(store.users.create(end)[0].id)
        training = store.trainings.request(project, {})
        assert store.trainings.claim("w", LEASE) is not None
        for _ in range(2000):
            disk.fill()
            try:
                store.trainings.add_event(training.id, "w", "progress", {"text": "x" * 2000})
            except StoreFullError:
                break
        else:
            pytest.fail("The disk is not full.")
        if end == "cancelled":
            store.trainings.cancel(project, training.id)
        elif end == "released":
            assert store.trainings.release(training.id, "w")
        else:
            store.trainings.end(training.id, "w", end, "why")
        assert store.trainings.get(project, training.id).state == end.replace("released", "waiting")
        disk.empty()
    store.close()


def logs(folder: Path) -> None:
    """Lose lines, and continue when there is space."""
    disk = Disk(folder / "logs")
    handler = LogFile(disk.path / "log")
    logger = logging.getLogger("filmtransfer.full")
    logger.propagate = False
    logger.addHandler(handler)
    logger.warning("before")
    disk.fill()
    for _ in range(3000):
        logger.warning("lost %s", "x" * 20)
    disk.empty()
    logger.warning("after")
    text = (disk.path / "log").read_text()
    assert "before" in text
    assert text.endswith("after\n")
    assert text.count("lost") < 3000
    disk.fill()
    for _ in range(3000):
        logger.warning("lost %s", "x" * 20)
    handler.close()


def service(folder: Path) -> None:
    """Empty a full disk over HTTP, end, start again and continue; the output is on the full disk, too."""
    from .updates import photo  # needs torch, unlike the other cases

    disk = Disk(folder / "service")
    (disk.path / "s").mkdir()
    serving = Serving(disk.path / "s" / "one", "--workers", "0")
    about = serving.about()
    with user_of(about["url"], about["token"]) as client:
        fill(client, photo)
        classes = [one["id"] for one in client.get("/api/classes").json()["classes"]]
        photos = [one["id"] for one in client.get("/api/photos").json()["photos"]]
        path = f"/api/classes/{classes[0]}/photos"
        statuses = []
        for i in range(30):
            disk.fill()
            sent = client.post(path, content=photo(0, 500 + i), headers={"Content-Type": "image/png"})
            statuses.append(sent.status_code)
        assert statuses[-1] == 507, statuses
        ready = client.get("/readyz")
        assert ready.status_code == 200, "otherwise nobody could delete anything"
        checks = ready.json()["checks"]
        assert [name for name, passed in checks.items() if not passed] == ["space"]
        for _ in range(150):  # more lines than the log has room for
            assert client.get("/api/classes").status_code == 200
        assert client.delete(f"/api/photos/{photos[0]}").status_code == 204
        disk.fill()
        assert client.delete(f"/api/classes/{classes[1]}").status_code == 204
        disk.fill()
        assert client.delete("/api/me/data").status_code == 204
        disk.fill()
    assert serving.end() == 0, serving.err.read_text()[-3000:]
    assert "Traceback" not in serving.err.read_text(), serving.err.read_text()[-3000:]


if __name__ == "__main__":
    for case in sys.argv[2:]:
        cases = {"stores": stores, "large": large, "trainings": trainings, "logs": logs, "service": service}
        cases[case](Path(sys.argv[1]))
