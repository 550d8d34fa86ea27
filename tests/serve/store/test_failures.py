"""A full disk, an unavailable database, and files that are damaged, foreign or too new."""

from __future__ import annotations

import errno
import os
import resource
import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, select, text, update

from filmtransfer.errors import UsageError
from filmtransfer.serve.settings import LEASE
from filmtransfer.serve.store import (
    ConflictError,
    Store,
    StoreDamagedError,
    StoreFullError,
    StoreLocation,
    StoreUnavailableError,
    tables,
)
from filmtransfer.serve.store import database as database_module
from filmtransfer.serve.store.objects import Staged
from filmtransfer.serve.store.reserve import PIECE

from .conftest import files_of

BIG = bytes(range(256)) * 4000


def pending(store: Store) -> list[str]:
    with store.database.read() as connection:
        return list(connection.execute(select(tables.pending.c.name)).scalars())


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_full_object_disk(tmp_path: Path, opened, monkeypatch, call):
    store: Store = opened(StoreLocation.of(tmp_path))
    project = store.projects.resolve(store.users.create("Ann")[0].id)
    only = store.classes.add(project, "cat")
    kept, _ = store.photos.add(project, only.id, b"first", b"small", "image/png")
    before = files_of(tmp_path / "objects")
    real = getattr(os, call)

    def full(handle: int, *rest: object) -> int:
        if "objects" in os.readlink(f"/proc/self/fd/{handle}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(handle, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(StoreFullError):
            store.photos.add(project, only.id, b"second", b"small", "image/png")
        with pytest.raises(StoreFullError):
            store.versions.publish(project, b"update", "trained", {})
    assert store.photos.all(project) == [kept]
    assert store.versions.current(project) is None
    assert files_of(tmp_path / "objects") == before
    assert pending(store) == []
    store.photos.add(project, only.id, b"second", b"small", "image/png")  # the disk has space again


def test_a_full_database(tmp_path: Path, opened):
    store: Store = opened(StoreLocation(f"sqlite:///{tmp_path}/fit.db", None))
    project = store.projects.resolve(store.users.create("Ann")[0].id)
    only = store.classes.add(project, "cat")
    kept, _ = store.photos.add(project, only.id, b"first", b"small", "image/png")
    with store.database.read() as connection:
        pages = connection.execute(text("PRAGMA page_count")).scalar_one()

    def allow(most: int) -> None:
        with store.database.read() as connection:
            connection.execute(text(f"PRAGMA max_page_count={most}"))

    allow(pages + 20)  # of the only connection in the pool
    for content in (BIG, BIG[::-1]):
        with pytest.raises(StoreFullError):
            store.photos.add(project, only.id, content, b"small", "image/png")
    with pytest.raises(StoreFullError):
        store.versions.publish(project, BIG, "trained", {})
    assert store.photos.all(project) == [kept]
    assert store.photos.content(project, kept.id) == b"first"
    assert store.versions.all(project) == []
    store.photos.delete(project, kept.id)  # deleting works on a full disk
    allow(10**6)
    added, _ = store.photos.add(project, only.id, BIG, b"small", "image/png")
    assert store.photos.content(project, added.id) == BIG


def test_the_database_is_unavailable_for_a_while(cluster, tmp_path: Path, opened):
    store: Store = opened(StoreLocation(cluster.fresh(), str(tmp_path / "objects")))
    user = store.users.create("Ann")[0]
    project = store.projects.resolve(user.id)
    only = store.classes.add(project, "cat")
    cluster.stop()
    try:
        for call in (
            store.ping,
            store.users.all,
            lambda: store.users.create("Bob"),
            lambda: store.photos.add(project, only.id, b"photo", b"small", "image/png"),
            lambda: store.trainings.claim("w", LEASE),
        ):
            with pytest.raises(StoreUnavailableError) as caught:
                call()
            assert caught.value.exit_code == 5
    finally:
        cluster.start()
    store.ping()
    assert store.users.all() == [user]
    assert store.photos.all(project) == []
    store.photos.add(project, only.id, b"photo", b"small", "image/png")
    assert files_of(tmp_path / "objects") != []


def test_missing_and_damaged_objects(tmp_path: Path, opened):
    store: Store = opened(StoreLocation.of(tmp_path))
    project = store.projects.resolve(store.users.create("Ann")[0].id)
    photo, _ = store.photos.add(
        project, store.classes.add(project, "cat").id, b"photo", b"small", "image/png"
    )
    away = (tmp_path / "objects").rename(tmp_path / "away")
    with pytest.raises(StoreUnavailableError):
        store.ping()
    with pytest.raises(StoreDamagedError):
        store.photos.content(project, photo.id)
    away.rename(tmp_path / "objects")
    assert store.photos.content(project, photo.id) == b"photo"
    for file in files_of(tmp_path / "objects"):
        file.write_bytes(b"phot0")
    with pytest.raises(StoreDamagedError):
        store.photos.content(project, photo.id)


def test_a_deletion_is_completed_when_the_object_store_is_back(tmp_path: Path, opened, monkeypatch):
    store: Store = opened(StoreLocation.of(tmp_path))
    user = store.users.create("Ann")[0].id
    project = store.projects.resolve(user)
    only = store.classes.add(project, "cat")
    photos = [store.photos.add(project, only.id, b"%d" % i, b"small", "image/png")[0] for i in range(2)]
    folder = store.objects.folder
    assert folder is not None

    def away(name: str) -> None:
        del name
        raise StoreUnavailableError("The object store does not respond.")

    with monkeypatch.context() as patch:
        patch.setattr(folder, "delete", away)
        store.photos.delete(project, photos[0].id)
        assert len(files_of(tmp_path / "objects")) == 4
        with pytest.raises(StoreUnavailableError, match="rows are deleted"):
            store.users.delete(user)
    assert store.users.all() == []
    opened(StoreLocation.of(tmp_path))
    assert files_of(tmp_path / "objects") == []
    assert pending(store) == []


def test_a_sweep_deletes_only_the_objects_of_a_killed_writer(tmp_path: Path, opened, monkeypatch):
    store: Store = opened(StoreLocation.of(tmp_path))
    project = store.projects.resolve(store.users.create("Ann")[0].id)
    only = store.classes.add(project, "cat")
    store.photos.add(project, only.id, b"kept", b"small", "image/png")

    class Killed(BaseException):
        pass

    def die(*rest: object) -> None:
        del rest
        raise Killed

    with monkeypatch.context() as patch:  # after the objects and before the row, without cleaning up
        patch.setattr(store.objects, "keep", die)
        patch.setattr(store.objects, "_discard", lambda names: None)
        with pytest.raises(Killed):
            store.photos.add(project, only.id, b"lost", b"small", "image/png")
    assert len(files_of(tmp_path / "objects")) == 4
    opened(StoreLocation.of(tmp_path))  # the writer might still be active
    assert len(files_of(tmp_path / "objects")) == 4
    with store.database.write() as connection:
        since = select(tables.pending.c.since).limit(1)
        long_ago = connection.execute(since).scalar_one() - timedelta(hours=2)
        connection.execute(update(tables.pending).values(since=long_ago))
    opened(StoreLocation.of(tmp_path))
    assert len(files_of(tmp_path / "objects")) == 2
    assert pending(store) == []


def test_a_slow_writer_cannot_keep_swept_objects(tmp_path: Path, opened, monkeypatch):
    store: Store = opened(StoreLocation.of(tmp_path))
    project = store.projects.resolve(store.users.create("Ann")[0].id)

    def swept(connection: Connection, staged: Staged) -> None:
        connection.execute(update(tables.pending).values(doomed=True))
        real(connection, staged)

    real = store.objects.keep
    monkeypatch.setattr(store.objects, "keep", swept)
    with pytest.raises(ConflictError, match="took too long"):
        store.versions.publish(project, b"slow", "trained", {})
    assert store.versions.all(project) == []
    assert files_of(tmp_path / "objects") == []


def test_damaged_foreign_and_newer_databases(tmp_path: Path, opened):
    url = f"sqlite:///{tmp_path}/fit.db"
    store: Store = opened(StoreLocation(url, None))
    project = store.projects.resolve(store.users.create("Ann")[0].id)
    store.versions.publish(project, BIG, "trained", {})
    with sqlite3.connect(tmp_path / "fit.db") as raw:
        raw.execute("UPDATE fit_revision SET version_num = '9999'")
    raw.close()
    with pytest.raises(StoreDamagedError, match="newer filmtransfer"):
        Store.open(StoreLocation(url))
    store.close()
    whole = (tmp_path / "fit.db").read_bytes()
    for content in (whole[:5000], b"\0" * 5000, whole[:100] + os.urandom(len(whole) - 100)):
        (tmp_path / "fit.db").write_bytes(content)
        with pytest.raises(StoreDamagedError) as caught:
            Store.open(StoreLocation(url)).users.all()
        assert caught.value.exit_code == 4


def test_invalid_locations_are_refused(tmp_path: Path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StoreUnavailableError):
        Store.open(StoreLocation(f"sqlite:///{tmp_path}/file/fit.db"))
    with pytest.raises(StoreUnavailableError):
        Store.open(StoreLocation(f"sqlite:///{tmp_path}/fit.db", str(tmp_path / "file" / "objects")))
    with pytest.raises(UsageError):
        Store.open(StoreLocation(f"sqlite:///{tmp_path}/fit.db", "nosuchthing://bucket"))
    with pytest.raises(UsageError):
        StoreLocation.of()


def test_a_lock_that_is_not_released(tmp_path: Path, opened, monkeypatch):
    monkeypatch.setattr(database_module, "WAIT", 0.05)
    store: Store = opened(StoreLocation(f"sqlite:///{tmp_path}/fit.db", None))
    other = sqlite3.connect(tmp_path / "fit.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError):
        store.users.create("Ann")
    assert store.users.all() == []  # readers and a writer do not block each other
    other.execute("ROLLBACK")
    other.close()
    store.users.create("Ann")


def test_an_object_store_in_memory(tmp_path: Path, opened):
    store: Store = opened(StoreLocation(f"sqlite:///{tmp_path}/fit.db", f"memory://fit{tmp_path.name}"))
    user = store.users.create("Ann")[0].id
    project = store.projects.resolve(user)
    photo, _ = store.photos.add(
        project, store.classes.add(project, "cat").id, b"photo", b"small", "image/png"
    )
    store.ping()
    assert store.photos.content(project, photo.id) == b"photo"
    folder = store.objects.folder
    assert folder is not None
    assert len(folder.system.find(folder.root)) == 2
    store.users.delete(user)
    assert folder.system.find(folder.root) == []


def test_a_process_that_can_open_no_more_files_cannot_write(store):
    assert store.is_writable()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            store.is_writable()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert store.is_writable()


def test_two_processes_delete_the_same_large_object(tmp_path: Path, opened, monkeypatch):
    """The second one ends first; the row of a new object may have the number of the deleted one."""
    location = StoreLocation(f"sqlite:///{tmp_path}/fit.db")
    one, other = opened(location), opened(location)
    project = one.projects.resolve(one.users.create("Ann")[0].id)
    only = one.classes.add(project, "cat")
    contents = [bytes([i]) * (3 * PIECE) for i in (1, 2)]
    old, _ = one.photos.add(project, only.id, contents[0], b"", "image/png")
    added = []

    def delete_too() -> bool:
        if not added:
            other.objects.sweep()
            added.append(other.photos.add(project, only.id, contents[1], b"", "image/png")[0].id)
        return True

    monkeypatch.setattr(one.database, "empty_log", delete_too)
    one.photos.delete(project, old.id)
    assert pending(one) == []
    assert [photo.id for photo in one.photos.all(project)] == added
    assert one.photos.content(project, added[0]) == contents[1]
