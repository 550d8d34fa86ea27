"""Three kinds of location: SQLite with the bytes in rows, SQLite and a folder, PostgreSQL and a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from filmtransfer.serve.store import Store, StoreLocation

KINDS = ("rows", "folder", pytest.param("postgres", marks=pytest.mark.process))


@pytest.fixture(params=KINDS)
def location(request: pytest.FixtureRequest, tmp_path: Path) -> StoreLocation:
    if request.param == "rows":
        return StoreLocation(f"sqlite:///{tmp_path}/fit.db", None)
    if request.param == "folder":
        return StoreLocation.of(tmp_path)
    return StoreLocation(request.getfixturevalue("cluster").fresh(), str(tmp_path / "objects"))


@pytest.fixture
def opened() -> Iterator[Callable[[StoreLocation], Store]]:
    """Return a function that opens stores; they are closed after the test."""
    stores: list[Store] = []

    def open_one(location: StoreLocation) -> Store:
        stores.append(Store.open(location))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


@pytest.fixture
def store(location: StoreLocation, opened: Callable[[StoreLocation], Store]) -> Store:
    return opened(location)


def files_of(root: Path) -> list[Path]:
    """Return all files below a folder."""
    return sorted(path for path in root.rglob("*") if path.is_file())
