"""The bytes of objects in rows of the database, where there is no folder for them.

SQLite writes everything to its log first, and zeros over what is deleted. So a large object takes as much space again
while it is added, and is deleted in pieces, each of which fits into the reserve of a full disk.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, delete, exists, func, insert, select, text

from .database import Database
from .errors import StoreDamagedError, StoreFullError
from .reserve import PIECE
from .tables import DatabaseRow, objects, pending

LOG_FACTOR = 2  # bytes of a SQLite database and of its log for each byte that is added


def insert_rows(
    database: Database, connection: Connection, names: Sequence[str], contents: Sequence[bytes]
) -> None:
    """Add objects; refuse them on a disk from whose log SQLite could not copy them to the database."""
    if not has_space(database, sum(map(len, contents))):
        raise StoreFullError("The disk is full.", "Free some space; nothing was written.")
    rows = [{"name": name, "content": content} for name, content in zip(names, contents, strict=True)]
    connection.execute(insert(objects), rows)


def has_space(database: Database, size: int) -> bool:
    """Return whether the disk of SQLite has room for an object of this size."""
    return database.reserve is None or database.reserve.free_bytes() >= LOG_FACTOR * size


def read_row(database: Database, name: str) -> bytes:
    """Return the bytes of an object that is not being deleted."""
    doomed = exists().where(pending.c.name == name)
    with database.read() as connection:
        content: bytes | None = connection.execute(
            select(objects.c.content).where((objects.c.name == name) & ~doomed)
        ).scalar_one_or_none()
    if content is None:
        raise StoreDamagedError("The bytes of this object are missing.", "Restore it from a backup.")
    return content


def delete_rows(database: Database, names: Sequence[str]) -> None:
    """Delete objects which no row refers to any more, and their names from the table ``pending``."""
    if not database.is_sqlite:
        with database.write() as connection:
            _delete(connection, names)
        return
    with database.read() as connection:
        columns = (objects.c.name, func.length(objects.c.content).label("size"))
        rows: list[DatabaseRow] = list(connection.execute(select(*columns).where(objects.c.name.in_(names))))
    for batch in _batches(rows):
        is_large = batch[0].size > PIECE
        if is_large:
            _overwrite(database, batch[0].name, batch[0].size)
        with database.write(reserved=True) as connection:
            # The pages of a large object have only zeros by now, and would be written once more.
            connection.exec_driver_sql(f"PRAGMA secure_delete={'FAST' if is_large else 'ON'}")
            try:
                _delete(connection, [row.name for row in batch])
            finally:
                connection.exec_driver_sql("PRAGMA secure_delete=ON")
    with database.write(reserved=True) as connection:
        _delete(connection, names)  # whose rows do not exist any more


def _batches(rows: Sequence[DatabaseRow]) -> Iterator[list[DatabaseRow]]:
    """Yield rows of together at most ``PIECE`` bytes, or a larger one alone."""
    batch: list[DatabaseRow] = []
    for row in rows:
        if batch and sum(other.size for other in batch) + row.size > PIECE:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _overwrite(database: Database, name: str, size: int) -> None:
    """Write zeros over an object, in a transaction for each piece, unless another process has deleted it."""
    for start in range(0, size, PIECE):
        with database.write(reserved=True) as connection:
            row = connection.execute(select(text("rowid")).where(objects.c.name == name)).scalar_one_or_none()
            if row is None:
                return
            raw = connection.connection.driver_connection
            assert isinstance(raw, sqlite3.Connection)
            with raw.blobopen(objects.name, "content", row) as blob:
                blob.seek(start)
                blob.write(bytes(min(PIECE, size - start)))
        database.empty_log()


def _delete(connection: Connection, names: Sequence[str]) -> None:
    connection.execute(delete(objects).where(objects.c.name.in_(names)))
    connection.execute(delete(pending).where(pending.c.name.in_(names)))
