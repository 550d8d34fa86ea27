"""The way to the database: SQLite in one file, or PostgreSQL by its URL.

A writer's transaction is on the disk when ``write`` has ended: SQLite with a write-ahead log and synchronous=FULL,
PostgreSQL by its own default. What the driver says is turned into the store's errors here, and nowhere else.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, exc, make_url, text

from ...errors import MissingExtraError, UsageError
from .errors import StoreDamagedError, StoreError, StoreFullError, StoreGoneError
from .names import now

WAIT = 30  # seconds that a writer waits for another process's transaction
APPLICATION = 0x46695453  # marks a SQLite file as ours
_PRAGMAS = ("synchronous=FULL", "foreign_keys=ON", "secure_delete=ON")


class Database:
    """Read and write transactions; may be shared by threads."""

    def __init__(self, url: str) -> None:
        self.url = _understood(url)
        self.shown = self.url.render_as_string(hide_password=True)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._turn: AbstractContextManager[Any] = nullcontext()
        if self.is_sqlite:
            self._turn = threading.Lock()  # SQLite has one writer: wait in line, not by trying again
            _check_file(Path(str(self.url.database)))
        self.engine = _engine(self.url)
        self._writer = self.engine.execution_options(writes=True)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with self._translated(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction: all of it is kept, or nothing."""
        with self._translated(), self._turn, self._writer.begin() as connection:
            yield connection

    def now(self, connection: Connection) -> datetime:
        """The database's clock: workers on several machines must agree when a lease ends."""
        if self.is_sqlite:
            return now()
        moment: datetime = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
        return moment.astimezone(now().tzinfo)

    def scrub(self) -> None:
        """SQLite: leave nothing of deleted rows in the file or its log. Elsewhere that is the server's business."""
        if not self.is_sqlite:
            return
        with self._translated(), self._turn, self.engine.connect() as connection:
            raw: Any = connection.connection.driver_connection
            try:
                raw.execute(
                    "VACUUM"
                )  # secure_delete has zeroed the rows; this drops copies made by moving cells
            except sqlite3.OperationalError as error:
                if "full" not in str(error):  # no room for a second copy: the zeroes must do
                    raise
            deadline = time.monotonic() + WAIT
            while raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:  # a reader is in the way
                if time.monotonic() > deadline:
                    raise StoreGoneError(
                        "The deleted rows are still in the write-ahead log: a long reader is in the way.",
                        "They go at the next deletion, or when all processes have closed the database.",
                    )
                time.sleep(0.02)

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except exc.IntegrityError:  # the caller's: it knows which rule was broken
            raise
        except exc.DBAPIError as error:
            known = _named(error.orig, self.shown)
            raise (known or error) from error
        except sqlite3.Error as error:
            known = _named(error, self.shown)
            raise (known or error) from error
        except exc.TimeoutError as error:
            raise StoreGoneError(
                f"All connections to {self.shown} are in use.", "Try again in a moment."
            ) from error


def _understood(url: str) -> URL:
    """The URL with its driver; what cannot work is refused before anything is touched."""
    try:
        parsed = make_url(url)
    except (exc.ArgumentError, ValueError):
        raise UsageError(
            "The database's URL cannot be read.",
            "As in sqlite:////srv/fit/fit.db or postgresql://name:password@host/base.",
        ) from None
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite", "postgresql+psycopg"):
        raise UsageError(
            f"The store cannot use {parsed.drivername}.",
            "Use sqlite:///FILE or postgresql://name:password@host/base.",
        )
    if parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise UsageError(
            "A SQLite database without a file would be lost.", "Name a file: sqlite:///FOLDER/fit.db."
        )
    return parsed


def _engine(url: URL) -> Engine:
    if url.get_backend_name() == "sqlite":
        engine = create_engine(
            url, connect_args={"timeout": WAIT, "check_same_thread": False}, pool_size=20, max_overflow=30
        )
        event.listen(engine, "connect", _prepare)
        event.listen(engine, "begin", _begin)
        return engine
    try:
        return create_engine(
            url, pool_pre_ping=True, pool_size=5, max_overflow=25, connect_args={"connect_timeout": 5}
        )
    except ImportError:
        raise MissingExtraError("PostgreSQL", "serve") from None


def _prepare(raw: Any, record: Any) -> None:
    del record
    raw.isolation_level = None  # we say BEGIN ourselves
    deadline = time.monotonic() + WAIT
    while True:  # going over to a log does not wait its turn by itself
        try:
            raw.execute("PRAGMA journal_mode=WAL")
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    for pragma in _PRAGMAS:
        raw.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    """A writer takes its place at once: a reader that turns writer half-way could only fail."""
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _check_file(path: Path) -> None:
    """A file that is there must be ours, and is looked at before anything is changed in it.

    Only SQLite itself may open the file: closing any other handle on it would drop the locks that this process's
    connections hold, and another process could then throw away their log (it happened: a test lost photos).
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = not path.exists()
        connection = sqlite3.connect(path, timeout=WAIT)
    except OSError as error:
        raise StoreGoneError(
            f"{path} cannot be opened ({error.strerror}).", "Choose another place, or mend its rights."
        ) from None
    except sqlite3.Error as error:
        raise (_named(error, str(path)) or error) from None
    try:
        if new:
            path.chmod(0o600)  # its log takes after it
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        raise (_named(error, str(path)) or error) from None
    finally:
        connection.close()
    if mark != APPLICATION and (mark or tables):
        raise StoreDamagedError(
            f"{path} is a database of another program.", "Choose another file for the store."
        )


def _named(error: BaseException | None, place: str) -> StoreError | None:
    """The store's name for a driver's complaint; None when it is none of these."""
    words = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if isinstance(error, sqlite3.Error):
        return _named_sqlite(words, place)
    state = getattr(error, "sqlstate", None)
    if state in ("53100", "53400"):
        return StoreFullError("The database's disk is full.", "Free some room there; nothing was written.")
    if state is None or state[:2] in ("08", "28", "3D", "53", "57", "40", "55", "58"):
        return StoreGoneError(
            f"The database {place} does not answer ({words}).", "Is it running? Try again in a moment."
        )
    if state[:2] == "XX":
        return StoreDamagedError(f"The database {place} is damaged ({words}).", "Restore it from a backup.")
    return None


def _named_sqlite(words: str, place: str) -> StoreError | None:
    if "full" in words:
        return StoreFullError("The disk is full.", "Free some room; nothing was written.")
    if any(word in words for word in ("not a database", "malformed", "encrypted")):
        return StoreDamagedError(
            f"{place} is damaged or no SQLite database ({words}).", "Restore it from a backup."
        )
    if any(word in words for word in ("locked", "unable to open", "disk I/O", "readonly", "read-only")):
        return StoreGoneError(f"{place} cannot be used now ({words}).", "Try again in a moment.")
    return None
