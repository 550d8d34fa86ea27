"""The same store three times: bytes in SQLite's rows, SQLite and a folder, PostgreSQL and a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from filmtransfer.serve.store import Place, Store

from ..postgres import cluster  # noqa: F401

KINDS = ("rows", "folder", "postgres")


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "rows":
        return Place(f"sqlite:///{tmp_path}/fit.db", None)
    if request.param == "folder":
        return Place.of(tmp_path)
    return Place(request.getfixturevalue("cluster").fresh(), str(tmp_path / "objects"))


@pytest.fixture
def opened() -> Iterator[Callable[[Place], Store]]:
    """Opens stores that are closed after the test."""
    stores: list[Store] = []

    def open_one(place: Place) -> Store:
        stores.append(Store.open(place.database, place.objects))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


@pytest.fixture
def store(place: Place, opened: Callable[[Place], Store]) -> Store:
    return opened(place)


def files_of(root: Path) -> list[Path]:
    """The objects in a folder, and whatever else lies there."""
    return sorted(path for path in root.rglob("*") if path.is_file())
