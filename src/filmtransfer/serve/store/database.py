"""Transactions on the database: SQLite in one file, or PostgreSQL at a URL.

A transaction is on the disk when ``write`` has returned: SQLite with a write-ahead log and synchronous=FULL, PostgreSQL
by its default. The driver's exceptions are translated to the store's errors here and nowhere else.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from contextvars import ContextVar
from datetime import datetime
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, event, exc, make_url, text
from sqlalchemy.pool import ConnectionPoolEntry

from ...errors import MissingExtraError, UsageError
from .errors import StoreDamagedError, StoreError, StoreFullError, StoreUnavailableError
from .reserve import Reserve
from .values import now

WAIT = 30  # seconds that a writer waits for another process's transaction, and everyone for a server that is silent
CONNECT_SECONDS = 5  # for a connection to a PostgreSQL server, before the next of several is tried
READ_ONLY = "25006"  # PostgreSQL's SQLSTATE of a write on a standby
APPLICATION = 0x46695453  # SQLite's application_id of a store
_HOST = r"[\w.-]+(?::\d+)?"
_SEVERAL_HOSTS = re.compile(
    rf"(?P<before>postgres[a-z+]*://(?:[^/?]*@)?)(?P<hosts>{_HOST}(?:,{_HOST})+)(?P<after>[/?].*)?"
)
response_seconds: ContextVar[float] = ContextVar("response_seconds")  # of PostgreSQL, instead of WAIT
_PRAGMAS = ("synchronous=FULL", "foreign_keys=ON", "secure_delete=ON")


class Database:
    """Read and write transactions. Thread-safe."""

    def __init__(self, url: str) -> None:
        self.url = _parse_url(url)
        self.display_url = display_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._write_lock: AbstractContextManager[object] = nullcontext()
        self.reserve: Reserve | None = None
        if self.is_sqlite:
            self._write_lock = threading.Lock()  # SQLite has one writer: wait for a lock, not by polling
            file = Path(str(self.url.database))
            self.reserve = Reserve(file)
            self.reserve.release()  # SQLite needs space to open a file; it is filled again once that is a store
            _check_file(file)
        self.engine = _engine(self.url)
        self._writer = self.engine.execution_options(writes=True)

    @staticmethod
    def exists(url: str) -> bool:
        """Return whether there is a database at the URL: for SQLite, a file with content. Nothing is created."""
        parsed = _parse_url(url)
        if parsed.get_backend_name() != "sqlite":
            return True  # or the first connection fails
        try:
            return Path(str(parsed.database)).stat().st_size > 0
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # no access: opening it says so
            return True

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction that only reads."""
        with self._translated(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def write(self, reserved: bool = False) -> Iterator[Connection]:
        """Open a transaction that is committed completely or not at all.

        One that is ``reserved`` may use the reserve of a full disk: it frees space, or ends what cannot go on.
        """
        reserve = self.reserved() if reserved else nullcontext()
        with self._translated(), self._write_lock, reserve, self._writer.begin() as connection:
            yield connection

    def reserved(self) -> AbstractContextManager[None]:
        """Let the block use the reserve of a full disk; PostgreSQL's disk is that of its own administrator."""
        return nullcontext() if self.reserve is None else self.reserve.released()

    def is_writable(self) -> bool:
        """Return whether the database accepts transactions that write; a standby of PostgreSQL does not."""
        if self.is_sqlite:
            return os.access(str(self.url.database), os.W_OK)
        with self.read() as connection:
            query = text(
                "SELECT current_setting('transaction_read_only') = 'off' AND NOT pg_is_in_recovery()"
            )
            return bool(connection.execute(query).scalar_one())

    def now(self, connection: Connection) -> datetime:
        """Return the time of the database's clock, so that all machines agree when a lease expires."""
        if self.is_sqlite:
            return now()
        moment: datetime = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
        return moment.astimezone(now().tzinfo)

    def scrub(self) -> None:
        """Remove all traces of deleted rows from SQLite's file and log; PostgreSQL's own VACUUM does that."""
        if not self.is_sqlite:
            return
        with self._translated(), self._write_lock, self.reserved(), self.engine.connect() as connection:
            raw = connection.connection.driver_connection
            assert isinstance(raw, sqlite3.Connection)
            try:
                raw.execute("VACUUM")  # secure_delete has zeroed the rows; this removes copies of cells
            except sqlite3.OperationalError as error:
                if "full" not in str(error):  # without room for a second copy the zeros have to suffice
                    raise
        if not self.empty_log():
            raise StoreUnavailableError(
                "The deleted rows are still in the write-ahead log, because another process is reading.",
                "They are removed at the next deletion, or when all processes have closed the database.",
            )

    def empty_log(self) -> bool:
        """Copy SQLite's log to the database and empty it; return False if a reader blocks it for too long."""
        with self._translated(), self._write_lock, self.reserved(), self.engine.connect() as connection:
            raw = connection.connection.driver_connection
            assert isinstance(raw, sqlite3.Connection)
            deadline = time.monotonic() + WAIT
            while raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.02)
        return True

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except exc.IntegrityError:  # the caller knows which constraint was violated
            raise
        except (exc.DBAPIError, sqlite3.Error) as error:
            cause = error.orig if isinstance(error, exc.DBAPIError) else error
            if getattr(cause, "sqlstate", None) == READ_ONLY:
                self.engine.dispose()  # the next connections find the server that accepts writes
            raise (_store_error(cause, self.display_url) or error) from error
        except exc.TimeoutError as error:
            raise StoreUnavailableError(
                f"All connections to {self.display_url} are in use.", "Try again in a moment."
            ) from error


@contextmanager
def responding_within(seconds: float) -> Iterator[None]:
    """Give PostgreSQL this time for each statement of the block."""
    token = response_seconds.set(seconds)
    try:
        yield
    finally:
        response_seconds.reset(token)


def display_url(url: str) -> str:
    """Return the URL without its password."""
    return _parse_url(url).render_as_string(hide_password=True)


def _parse_url(url: str) -> URL:
    """Return the URL with its driver; refuse what cannot work before anything is changed."""
    try:
        parsed = _parse_hosts(url) or make_url(url)
    except (exc.ArgumentError, ValueError):
        raise UsageError(
            "The URL of the database is not valid.",
            "As in sqlite:////srv/fit/fit.db or postgresql://name:password@host/base.",
        ) from None
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite", "postgresql+psycopg"):
        raise UsageError(
            f"The store does not support {parsed.drivername}.",
            "Use sqlite:///FILE or postgresql://name:password@host/base.",
        )
    if parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise UsageError("A SQLite database in memory would be lost.", "Use a file: sqlite:///FOLDER/fit.db.")
    return parsed


def _parse_hosts(url: str) -> URL | None:
    """Return the URL of several PostgreSQL servers, which libpq writes HOST:PORT,HOST:PORT; None for another URL."""
    match = _SEVERAL_HOSTS.fullmatch(url)
    if match is None:
        return None
    hosts = [("host", host) for host in match["hosts"].split(",")]  # as SQLAlchemy writes them
    return make_url(match["before"] + (match["after"] or "")).update_query_pairs(hosts)


def _engine(url: URL) -> Engine:
    if url.get_backend_name() == "sqlite":
        engine = create_engine(
            url, connect_args={"timeout": WAIT, "check_same_thread": False}, pool_size=20, max_overflow=30
        )
        event.listen(engine, "connect", _prepare)
        event.listen(engine, "begin", _begin)
        return engine
    try:
        from .postgres import PostgresConnection

        options = {"connect_timeout": CONNECT_SECONDS}
        engine = create_engine(url, pool_pre_ping=True, pool_size=5, max_overflow=25, connect_args=options)
    except ImportError:
        raise MissingExtraError("PostgreSQL", "serve") from None
    event.listen(
        engine, "do_connect", lambda _, __, options, named: PostgresConnection.connect(*options, **named)
    )
    return engine


def _prepare(raw: sqlite3.Connection, record: ConnectionPoolEntry) -> None:
    del record
    raw.isolation_level = None  # _begin starts the transactions
    deadline = time.monotonic() + WAIT
    while True:  # SQLite does not wait for the lock by itself when it changes the journal mode
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
    """Lock at once for writing: a reader that becomes a writer later can only fail."""
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _check_file(path: Path) -> None:
    """Refuse the database of another program, before anything in it is changed.

    Only SQLite itself may open the file: closing any other handle would release the locks of this process's
    connections, and another process could then delete their log (which lost photos in a test).
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = not path.exists()
        connection = sqlite3.connect(path, timeout=WAIT)
    except OSError as error:
        raise StoreUnavailableError(
            f"{path} cannot be opened ({error.strerror}).",
            "Choose another folder, or change its permissions.",
        ) from None
    except sqlite3.Error as error:
        raise (_store_error(error, str(path)) or error) from None
    try:
        if new:
            path.chmod(0o600)  # the log inherits it
        with closing(connection):
            connection.execute("BEGIN")  # one snapshot: another process may be creating the tables
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        raise (_store_error(error, str(path)) or error) from None
    if application != APPLICATION and (application or tables):
        raise StoreDamagedError(
            f"{path} is a database of another program.", "Choose another file for the store."
        )


def _store_error(error: BaseException | None, location: str) -> StoreError | None:
    """Return the store's error for a driver's exception; None for an exception that has none."""
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if isinstance(error, sqlite3.Error):
        return _sqlite_error(text, location)
    state = getattr(error, "sqlstate", None)
    if state in ("53100", "53400"):
        return StoreFullError("The disk of the database is full.", "Free some space; nothing was written.")
    if state is None or state == READ_ONLY or state[:2] in ("08", "28", "3D", "53", "57", "40", "55", "58"):
        return StoreUnavailableError(
            f"The database {location} does not respond ({text}).", "Is it running? Try again in a moment."
        )
    if state[:2] == "XX":
        return StoreDamagedError(f"The database {location} is damaged ({text}).", "Restore it from a backup.")
    return None


def _sqlite_error(text: str, location: str) -> StoreError | None:
    if "full" in text:
        return StoreFullError("The disk is full.", "Free some space; nothing was written.")
    if any(part in text for part in ("not a database", "malformed", "encrypted")):
        return StoreDamagedError(
            f"{location} is damaged or not a SQLite database ({text}).", "Restore it from a backup."
        )
    if any(part in text for part in ("locked", "unable to open", "disk I/O", "readonly", "read-only")):
        return StoreUnavailableError(f"{location} cannot be used now ({text}).", "Try again in a moment.")
    return None
