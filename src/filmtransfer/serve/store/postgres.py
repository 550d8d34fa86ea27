"""Connections to PostgreSQL that give up when the server does not respond any more.

Of a server that hangs, the operating system still acknowledges what is sent and keeps the connections open, so neither
the timeouts of TCP nor the server's own ``statement_timeout`` end the wait.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import psycopg
from psycopg.rows import TupleRow

from . import database


class PostgresConnection(psycopg.Connection[TupleRow]):
    """A connection that is closed after ``database.WAIT`` seconds without a byte from or to the server."""

    def wait(self, gen: Generator[Any, Any, Any], *arguments: Any, **more: Any) -> Any:
        """Wait for the end of a statement; psycopg calls this for every one."""
        return super().wait(self._limited(gen), *arguments, **more)

    def _limited(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        seconds = database.response_seconds.get(database.WAIT)
        deadline = time.monotonic() + seconds
        try:
            awaited = next(gen)
            while True:
                ready = yield awaited
                if ready:
                    deadline = time.monotonic() + seconds
                elif time.monotonic() > deadline:
                    self.close()
                    raise psycopg.OperationalError(f"no response in {seconds:g} s")
                awaited = gen.send(ready)
        except StopIteration as end:
            return end.value
