"""Disk space that is kept for deletions, so that a full disk can be emptied.

A deletion needs space before it frees any: SQLite writes the changed pages to its log first. A file beside the database
holds this space. It is emptied for a transaction on a disk that is nearly full, and filled again afterwards, as far as
there is space.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy.exc import DBAPIError

SIZE = 16_000_000  # bytes: the log before its checkpoint, and the rows of a large project
PIECE = 4_000_000  # bytes of objects that are deleted by one transaction
CHUNK = 1_000_000


class Reserve:
    """A file that takes space until it is needed."""

    def __init__(self, database: Path) -> None:
        self.file = database.with_name(f"{database.name}-reserve")
        self._needed = False  # although the disk has space left: perhaps it has a quota for this user

    @contextmanager
    def released(self) -> Iterator[None]:
        """Let the block use the space if the disk has little left."""
        self.release()
        try:
            yield
        except (DBAPIError, sqlite3.Error):
            self._needed = True
            raise
        finally:
            self._fill()

    def release(self) -> None:
        """Empty the file if the disk has little left, or a block that might have needed it failed."""
        with suppress(OSError):  # there is none yet
            if self._needed or self.free_bytes() < SIZE:
                os.truncate(self.file, 0)

    def free_bytes(self) -> int:
        """Return how much space the disk of the database has left."""
        return shutil.disk_usage(self.file.parent).free

    def _fill(self) -> None:
        with suppress(OSError):  # the disk is full: what was written stays
            handle = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                while (missing := SIZE - os.fstat(handle).st_size) > 0:
                    os.write(handle, bytes(min(CHUNK, missing)))  # a file with holes would hold nothing
            finally:
                os.close(handle)
