"""The bytes of photos and updates: beside the rows, or in a folder or object store.

An object is written whole before a row speaks of it, and goes after the row has gone. Between the two its name stands
in the table ``pending``, so whatever dies in between, a sweep finds the orphan without listing a single folder.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection, delete, insert, select, update

from . import schema
from .database import Database
from .errors import ConflictError, StoreDamagedError, StoreError
from .folder import Folder
from .names import now

PATIENCE = timedelta(hours=1)  # a name that waits longer belongs to a process that died
SWEEP = 500  # names in one go


@dataclass
class Staged:
    """Objects that no row speaks of yet."""

    names: tuple[str, ...]
    contents: tuple[bytes, ...]
    kept: bool = False


class Objects:
    def __init__(self, database: Database, folder: Folder | None) -> None:
        self.database = database
        self.folder = folder

    @contextmanager
    def stage(self, user: str, *contents: bytes) -> Iterator[Staged]:
        """Write objects; unless ``keep`` is called in the block they go again."""
        names = tuple(f"{user[:2]}/{user}/{secrets.token_hex(16)}" for _ in contents)
        staged = Staged(names, contents)
        if self.folder is None:
            yield staged
            return
        with self.database.write() as connection:
            rows = [{"name": name, "since": now(), "doomed": False} for name in names]
            connection.execute(insert(schema.pending), rows)
        try:
            for name, content in zip(names, contents, strict=True):
                self.folder.write(name, content)
            yield staged
        except BaseException:
            self._drop(names)
            raise
        if not staged.kept:
            self._drop(names)

    def keep(self, connection: Connection, staged: Staged) -> None:
        """In the transaction whose rows speak of them."""
        staged.kept = True
        if self.folder is None:
            rows = [{"name": n, "content": c} for n, c in zip(staged.names, staged.contents, strict=True)]
            connection.execute(insert(schema.objects), rows)
            return
        ours = schema.pending.c.name.in_(staged.names) & ~schema.pending.c.doomed
        if connection.execute(delete(schema.pending).where(ours)).rowcount != len(staged.names):
            raise ConflictError("Writing took so long that it was given up.", "Try again.")

    def read(self, name: str) -> bytes:
        if self.folder is not None:  # it may be slow: no transaction waits for it
            return self.folder.read(name)
        with self.database.read() as connection:
            content: bytes | None = connection.execute(
                select(schema.objects.c.content).where(schema.objects.c.name == name)
            ).scalar_one_or_none()
        if content is None:
            raise StoreDamagedError("The bytes of this object are missing.", "Restore it from a backup.")
        return content

    def doom(self, connection: Connection, names: Sequence[str]) -> None:
        """In the transaction that deletes the rows that spoke of them."""
        for start in range(0, len(names), SWEEP):
            some = names[start : start + SWEEP]
            if self.folder is None:
                connection.execute(delete(schema.objects).where(schema.objects.c.name.in_(some)))
            else:
                rows = [{"name": name, "since": now(), "doomed": True} for name in some]
                connection.execute(insert(schema.pending), rows)

    def doom_staged(self, connection: Connection, user: str) -> None:
        """Whoever is writing for this user now will not be able to keep it."""
        theirs = schema.pending.c.name.startswith(f"{user[:2]}/{user}/", autoescape=True)
        connection.execute(update(schema.pending).where(theirs).values(doomed=True))

    def sweep(self) -> None:
        """Delete the objects that are doomed, and those whose writer died."""
        if self.folder is None:
            return
        pending = schema.pending
        while True:
            with self.database.read() as connection:
                late = pending.c.since < now() - PATIENCE
                due = connection.execute(select(pending.c.name).where(pending.c.doomed | late).limit(SWEEP))
                names = list(due.scalars())
            if not names:
                return
            self._remove(names)

    def tidy(self) -> None:
        """Sweep after a deletion; if the object store does not answer, the next sweep does it."""
        try:
            self.sweep()
        except StoreError:
            pass

    def forget_user(self, user: str) -> None:
        if self.folder is not None:
            self.folder.delete_folder(f"{user[:2]}/{user}")

    def _drop(self, names: Sequence[str]) -> None:
        """After a refusal; if this fails too, the sweep finds them."""
        try:
            self._remove(names)
        except StoreError:
            pass

    def _remove(self, names: Sequence[str]) -> None:
        """Those of the names that still wait: a row may speak of the others, even if its writer never heard so."""
        assert self.folder is not None
        which = schema.pending.c.name.in_(names)
        with self.database.write() as connection:  # from here on nobody can keep them
            connection.execute(update(schema.pending).where(which).values(doomed=True))
            doomed = list(connection.execute(select(schema.pending.c.name).where(which)).scalars())
        for name in doomed:
            self.folder.delete(name)
        with self.database.write() as connection:
            connection.execute(delete(schema.pending).where(schema.pending.c.name.in_(doomed)))
