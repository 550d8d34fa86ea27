"""The bytes of photos and update files: in the database, or in a folder or object store.

An object is written completely before a row refers to it, and deleted after that row. In between its name is in the
table ``pending``, so that a sweep finds what an interrupted process left behind without listing a folder.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection, delete, insert, select, update

from .database import Database
from .errors import ConflictError, StoreError
from .object_folder import ObjectFolder
from .object_rows import delete_rows, has_space, insert_rows, read_row
from .tables import pending
from .values import now

MAX_WRITE_TIME = timedelta(hours=1)  # an object that is pending for longer belongs to a process that died
SWEEP = 500  # names in one query


@dataclass
class Staged:
    """Objects that no row refers to yet."""

    names: tuple[str, ...]
    contents: tuple[bytes, ...]
    kept: bool = False


class ObjectStore:
    """The bytes of photos and update files by name."""

    def __init__(self, database: Database, folder: ObjectFolder | None) -> None:
        self.database = database
        self.folder = folder

    @contextmanager
    def stage(self, user: str, *contents: bytes) -> Iterator[Staged]:
        """Write objects; delete them again unless ``keep`` is called in the block."""
        names = tuple(f"{user[:2]}/{user}/{secrets.token_hex(16)}" for _ in contents)
        staged = Staged(names, contents)
        if self.folder is None:
            yield staged
            return
        with self.database.write() as connection:
            _insert_pending(connection, names, doomed=False)
        try:
            for name, content in zip(names, contents, strict=True):
                self.folder.write(name, content)
            yield staged
        except BaseException:
            self._discard(names)
            raise
        if not staged.kept:
            self._discard(names)

    def keep(self, connection: Connection, staged: Staged) -> None:
        """Keep staged objects, in the transaction whose rows refer to them."""
        staged.kept = True
        if self.folder is None:
            insert_rows(self.database, connection, staged.names, staged.contents)
            return
        own = pending.c.name.in_(staged.names) & ~pending.c.doomed
        if connection.execute(delete(pending).where(own)).rowcount != len(staged.names):
            raise ConflictError("Writing took too long and was cancelled.", "Try again.")

    def read(self, name: str) -> bytes:
        """Return the bytes of an object."""
        if self.folder is not None:  # outside a transaction, since it may be slow
            return self.folder.read(name)
        return read_row(self.database, name)

    def delete_later(self, connection: Connection, names: Sequence[str]) -> None:
        """Mark objects for deletion, in the transaction that deletes the rows that refer to them."""
        for start in range(0, len(names), SWEEP):
            _insert_pending(connection, names[start : start + SWEEP], doomed=True)

    def reject_staged(self, connection: Connection, user: str) -> None:
        """Mark all staged objects of a user for deletion, so that their writers cannot keep them."""
        of_user = pending.c.name.startswith(f"{user[:2]}/{user}/", autoescape=True)
        connection.execute(update(pending).where(of_user).values(doomed=True))

    def sweep(self) -> None:
        """Delete the objects that are marked for deletion, and those whose writer died."""
        while True:
            with self.database.read() as connection:
                late = pending.c.since < now() - MAX_WRITE_TIME
                due = connection.execute(select(pending.c.name).where(pending.c.doomed | late).limit(SWEEP))
                names = list(due.scalars())
            if not names:
                return
            self._delete(names)

    def try_sweep(self) -> None:
        """Sweep; if the object store does not respond, the next sweep deletes the objects."""
        with suppress(StoreError):
            self.sweep()

    def has_space(self, size: int) -> bool:
        """Return whether the disks of the database and of the objects have room for an object, as far as is known."""
        if self.folder is None:
            return has_space(self.database, size)
        disks = [self.database.reserve, self.folder]
        free = [disk.free_bytes() for disk in disks if disk is not None]
        return all(left is None or left >= size for left in free)

    def delete_user(self, user: str) -> None:
        """Delete the folder of a user."""
        if self.folder is not None:
            self.folder.delete_folder(f"{user[:2]}/{user}")

    def _discard(self, names: Sequence[str]) -> None:
        """Delete staged objects that were not kept; if that fails, the next sweep deletes them."""
        with suppress(StoreError):
            self._delete(names)

    def _delete(self, names: Sequence[str]) -> None:
        """Delete those of the objects that are still pending: a row may refer to the others."""
        if self.folder is None:
            delete_rows(self.database, names)
            return
        condition = pending.c.name.in_(names)
        with self.database.write(reserved=True) as connection:  # from here on nobody can keep them
            connection.execute(update(pending).where(condition).values(doomed=True))
            doomed = list(connection.execute(select(pending.c.name).where(condition)).scalars())
        for name in doomed:
            self.folder.delete(name)
        with self.database.write(reserved=True) as connection:
            connection.execute(delete(pending).where(pending.c.name.in_(doomed)))


def _insert_pending(connection: Connection, names: Sequence[str], doomed: bool) -> None:
    rows = [{"name": name, "since": now(), "doomed": doomed} for name in names]
    connection.execute(insert(pending), rows)
