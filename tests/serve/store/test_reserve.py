"""The space for deletions: taken, given to a transaction on a full disk, and taken again (see also tests/serve/full_disk.py)."""

from __future__ import annotations

import shutil
import sqlite3
from collections import namedtuple
from pathlib import Path

import pytest

from filmtransfer.serve.store import NotFoundError, Store, StoreDamagedError, StoreFullError, StoreLocation
from filmtransfer.serve.store.reserve import SIZE, Reserve

Disk = namedtuple("Disk", "total used free")


@pytest.fixture
def left(monkeypatch):
    """Return a function that sets how many bytes the disk seems to have left."""

    def set_free(free: int) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda path: Disk(10**12, 10**12 - free, free))

    return set_free


def test_the_reserve_is_released_on_a_full_disk_only(tmp_path: Path, left):
    reserve = Reserve(tmp_path / "fit.db")
    with reserve.released():
        assert not reserve.file.exists()
    assert reserve.file.stat().st_size == SIZE
    assert reserve.file.stat().st_blocks * 512 >= SIZE, "it has no holes"
    assert reserve.file.stat().st_mode & 0o077 == 0
    left(SIZE)
    with reserve.released():
        assert reserve.file.stat().st_size == SIZE
    left(SIZE - 1)
    with reserve.released():
        assert reserve.file.stat().st_size == 0
    assert reserve.file.stat().st_size == SIZE


def test_transactions_that_free_space_may_use_it(tmp_path: Path, opened, left):
    store: Store = opened(StoreLocation.of(tmp_path))
    assert store.database.reserve is not None
    file = store.database.reserve.file
    assert file.stat().st_size == SIZE, "taken when the store is opened"
    left(0)
    with store.database.write():
        assert file.stat().st_size == SIZE
    with store.database.write(reserved=True):
        assert file.stat().st_size == 0
    assert file.stat().st_size == SIZE


def test_the_reserve_is_released_after_an_error_of_the_database(tmp_path: Path):
    """A user's quota of the disk does not show in its free space."""
    reserve = Reserve(tmp_path / "fit.db")
    for error, size in ((NotFoundError, SIZE), (sqlite3.OperationalError, 0)):
        with pytest.raises(error), reserve.released():
            raise error("disk I/O error")
        with reserve.released():
            assert reserve.file.stat().st_size == size
    assert reserve.file.stat().st_size == SIZE


def test_what_the_log_could_not_be_copied_for_is_refused(tmp_path: Path, opened, left):
    store: Store = opened(StoreLocation(f"sqlite:///{tmp_path}/fit.db"))
    project = store.projects.resolve(store.users.create("Ann")[0].id)
    only = store.classes.add(project, "cat")
    content = bytes(1000)
    left(2 * len(content) - 1)
    assert not store.has_space(len(content))
    with pytest.raises(StoreFullError):
        store.photos.add(project, only.id, content, b"", "image/png")
    left(2 * len(content))
    assert store.has_space(len(content))
    assert store.photos.add(project, only.id, content, b"", "image/png")[1]


def test_the_file_of_another_program_gets_no_reserve(tmp_path: Path):
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE something (x)")
    other.close()
    with pytest.raises(StoreDamagedError):
        Store.open(StoreLocation(f"sqlite:///{tmp_path}/other.db"))
    assert [file.name for file in tmp_path.iterdir()] == ["other.db"]
