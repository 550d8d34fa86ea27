"""Limits on connections: their number, the size and duration of request headers, and clients that do not read.

uvicorn gives a client any time to send the headers of a request, and any time to read a response. Here one timer looks at
all connections. What is not valid HTTP gets an error in the format of all errors.
"""

from __future__ import annotations

import asyncio
import logging
import select
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from ..budgets import MAX_HEADER_BYTES, MAX_HEADERS, MAX_URL_BYTES, READ_BYTES, SPARE_CONNECTIONS
from .errors import ApiError, response_to
from .limits import ON_DISCONNECT
from .settings import ServiceSettings

CHECK_SECONDS = 1.0  # between two looks at all connections

log = logging.getLogger("filmtransfer.serve")


class Connections:
    """All connections of a server."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.open: set[LimitedProtocol] = set()
        self.addresses: Counter[str] = Counter()
        self.hang_ups = HangUps()

    def protocol(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> LimitedProtocol:
        """Return the protocol of a new connection; uvicorn calls it like a class."""
        return LimitedProtocol(self, config, server_state, app_state, _loop)

    def add(self, connection: LimitedProtocol) -> ApiError | None:
        """Add a connection; return why it gets no other response than this error."""
        if not self.open:
            connection.loop.call_later(CHECK_SECONDS, self.check, connection.loop)
        self.open.add(connection)
        self.addresses[connection.address] += 1
        limit = self.settings.max_connections_of_address
        if limit and self.addresses[connection.address] > limit:
            return ApiError(429, "too_many", "Too many connections.", "Close some of them.", retry=1)
        if len(self.open) > self.settings.max_connections:
            return ApiError(503, "busy", "Too many connections.", "Try again in a moment.", retry=1)
        return None

    def remove(self, connection: LimitedProtocol) -> None:
        """Remove a connection that was added."""
        self.open.discard(connection)
        self.addresses[connection.address] -= 1
        if not self.addresses[connection.address]:
            del self.addresses[connection.address]

    def check(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close the connections whose clients are too slow."""
        for connection in list(self.open):
            connection.check(loop.time(), self.settings)
        if self.open:
            loop.call_later(CHECK_SECONDS, self.check, loop)


class LimitedProtocol(H11Protocol):
    """uvicorn's HTTP protocol, with limits."""

    def __init__(
        self,
        all_connections: Connections,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, {**app_state, ON_DISCONNECT: self.on_disconnect}, _loop)
        self.conn = LimitedConnection(h11.SERVER, MAX_HEADER_BYTES)
        self.all_connections = all_connections
        self.address = ""
        self.refusal: ApiError | None = None
        self.head_since: float | None = None  # while a request is expected
        self.unsent = 0  # bytes of the response
        self.read_at = self.loop.time()  # when the client last took some of it

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection."""
        super().connection_made(transport)
        if hasattr(transport, "max_size"):  # otherwise 256 KB of each connection could be in memory
            transport.max_size = READ_BYTES
        self.address = self.client[0] if self.client else ""
        self.head_since = self.loop.time()
        self.refusal = self.all_connections.add(self)
        if len(self.all_connections.open) > self.all_connections.settings.max_connections + SPARE_CONNECTIONS:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting it."""
        self.all_connections.remove(self)
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process the bytes, unless all that this connection gets is an error."""
        if self.refusal is not None:
            self.respond_and_close(self.refusal)
        elif not self.transport.is_closing():
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:
                self.head_since = None

    def on_response_complete(self) -> None:
        """Expect the next request."""
        self.head_since = self.loop.time()
        super().on_response_complete()
        if self.cycle is not None and not self.cycle.response_complete:  # it had arrived already
            self.head_since = None

    def check(self, now: float, settings: ServiceSettings) -> None:
        """Close the connection if its client is too slow."""
        unsent = self.transport.get_write_buffer_size()
        if unsent == 0 or unsent < self.unsent:
            self.read_at = now
        self.unsent = unsent
        if now - self.read_at > settings.max_send_pause:
            self.transport.abort()
        elif self.transport.is_closing():
            return
        elif self.head_since is not None and now - self.head_since > settings.max_head_seconds:
            begun = bool(self.conn.trailing_data[0])
            slow = ApiError(408, "too_slow", "The headers did not arrive in time.", "Send the request again.")
            self.respond_and_close(slow) if begun else self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Respond to what is not valid HTTP, or is above a limit; uvicorn calls this in the handler of the exception."""
        error = sys.exc_info()[1]
        status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        if isinstance(error, LimitError):
            message = str(error)
        elif status == 431:  # h11's limit on headers that are not complete
            message = f"The headers have more than {MAX_HEADER_BYTES} bytes."
        else:
            message = msg
        hint = "Send fewer or shorter ones." if status in (414, 431) else "Send HTTP/1.1."
        self.respond_and_close(ApiError(status, "bad_request", message, hint))

    def respond_and_close(self, error: ApiError) -> None:
        """Send an error unless another response has begun; close the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            response = response_to(error, close=True)
            for event in (
                h11.Response(status_code=error.status, headers=response.raw_headers),
                h11.Data(data=bytes(response.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
            log.info("- refused before the request was complete: %d %s", error.status, error.message)
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()

    def shutdown(self) -> None:
        """Close the connection when its response is complete."""
        with suppress(h11.LocalProtocolError):  # it is being closed after an error
            super().shutdown()

    @contextmanager
    def on_disconnect(self, leave: Callable[[], None]) -> Iterator[None]:
        """Call the function when the client closes the connection, although nothing is read from it."""

        def close() -> None:
            leave()
            self.transport.abort()

        if self.cycle.disconnected:
            leave()
        with self.all_connections.hang_ups.observed(self.loop, self.transport, close):
            yield


class HangUps:
    """Notices that clients have closed their connections while the service does not read what they send."""

    def __init__(self) -> None:
        self.epoll = select.epoll() if sys.platform == "linux" else None
        self.callbacks: dict[int, Callable[[], None]] = {}

    @contextmanager
    def observed(
        self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, close: Callable[[], None]
    ) -> Iterator[None]:
        """Call ``close`` when the client closes the connection of a transport."""
        line = transport.get_extra_info("socket")
        descriptor = -1 if line is None else line.fileno()
        if self.epoll is None or descriptor < 0:
            yield
            return
        if not self.callbacks:
            loop.add_reader(self.epoll.fileno(), self._notify)
        self.callbacks[descriptor] = close
        self.epoll.register(descriptor, select.EPOLLRDHUP)
        try:
            yield
        finally:
            del self.callbacks[descriptor]
            with suppress(OSError):  # it was closed
                self.epoll.unregister(descriptor)
            if not self.callbacks:
                loop.remove_reader(self.epoll.fileno())

    def _notify(self) -> None:
        assert self.epoll is not None
        for descriptor, _ in self.epoll.poll(0):
            self.callbacks[descriptor]()


class LimitError(h11.RemoteProtocolError):
    """A request is above a limit; h11 itself limits only what arrives in several parts."""


class LimitedConnection(h11.Connection):
    """h11's parser, with limits on the headers of a request."""

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Return the next event; refuse a request that is above a limit."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            if len(event.target) > MAX_URL_BYTES:
                raise LimitError(f"The URL has more than {MAX_URL_BYTES} bytes.", 414)
            if len(event.headers) > MAX_HEADERS:
                raise LimitError(f"The request has more than {MAX_HEADERS} headers.", 431)
            if sum(len(name) + len(value) for name, value in event.headers) > MAX_HEADER_BYTES:
                raise LimitError(f"The headers have more than {MAX_HEADER_BYTES} bytes.", 431)
        return event
