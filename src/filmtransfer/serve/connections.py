"""Limits on connections: their number, the size and duration of request headers, and clients that do not read.

uvicorn gives a client any time to send the headers of a request, and any time to read a response. Here one timer looks at
all connections. What is not valid HTTP gets an error in the format of all errors.
"""

from __future__ import annotations

import asyncio
import logging
import select
import socket
import ssl
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
    """All connections of a server, each from its acceptance on: one without a TLS handshake takes a file, too."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.open: set[LimitedProtocol] = set()
        self.addresses: Counter[str] = Counter()  # of the connections that are not refused
        self.refused = 0
        self.hang_ups = HangUps()
        self._opening: set[asyncio.Task[None]] = set()

    async def accept(
        self, listener: socket.socket, make: Callable[[], LimitedProtocol], tls: ssl.SSLContext | None
    ) -> None:
        """Accept connections until cancelled; ``make`` returns the protocol of a new one."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                line, (address, *_) = await loop.sock_accept(listener)
            except ConnectionError:  # the client has left
                continue
            except OSError as error:  # the system has no more files
                log.warning("no connection can be accepted (%s)", error)
                await asyncio.sleep(CHECK_SECONDS)
                continue
            refusal = self._refusal(address)
            if refusal is not None and self.refused >= SPARE_CONNECTIONS:
                line.close()
            else:
                connection = make()
                self._add(connection, address, refusal)
                task = loop.create_task(self._open(connection, line, tls))
                self._opening.add(task)
                task.add_done_callback(self._opening.discard)
            await asyncio.sleep(0)  # a flood of connections does not delay the requests of others

    async def _open(
        self, connection: LimitedProtocol, line: socket.socket, tls: ssl.SSLContext | None
    ) -> None:
        """Do the TLS handshake, which has as much time as the headers of a request."""
        seconds = self.settings.max_head_seconds if tls else None
        try:
            await connection.loop.connect_accepted_socket(
                lambda: connection, line, ssl=tls, ssl_handshake_timeout=seconds
            )
        except OSError:  # it failed or took too long, and the connection was closed
            self.remove(connection)

    def _refusal(self, address: str) -> ApiError | None:
        """Return why a new connection gets no other response than this error."""
        limit = self.settings.max_connections_of_address
        if limit and self.addresses[address] >= limit:
            return ApiError(429, "too_many", "Too many connections.", "Close some of them.", retry=1)
        if len(self.open) - self.refused >= self.settings.max_connections:
            return ApiError(503, "busy", "Too many connections.", "Try again in a moment.", retry=1)
        return None

    def _add(self, connection: LimitedProtocol, address: str, refusal: ApiError | None) -> None:
        if not self.open:
            connection.loop.call_later(CHECK_SECONDS, self.check, connection.loop)
        self.open.add(connection)
        connection.address, connection.refusal = address, refusal
        if refusal is None:
            self.addresses[address] += 1
        else:
            self.refused += 1

    def remove(self, connection: LimitedProtocol) -> None:
        """Remove a connection that was closed."""
        if connection not in self.open:
            return
        self.open.remove(connection)
        if connection.refusal is not None:
            self.refused -= 1
            return
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
        self.leave: Callable[[], None] | None = None  # of the request that waits for its turn
        self.head_since: float | None = None  # while a request is expected
        self.unsent = 0  # bytes of the response
        self.read_at = self.loop.time()  # when the client last took some of it

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect a request; the TLS handshake is complete."""
        super().connection_made(transport)
        if hasattr(transport, "max_size"):  # otherwise 256 KB of each connection could be in memory
            transport.max_size = READ_BYTES
        self.head_since = self.loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting it."""
        self.all_connections.remove(self)
        if self.leave is not None:
            self.leave()
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
        """Close the connection if its client is too slow; a TLS handshake has a limit of its own."""
        if self.transport is None:
            return
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
        if self.leave is not None:
            self.leave()
        self.transport.close()

    def shutdown(self) -> None:
        """Close the connection when its response is complete."""
        with suppress(h11.LocalProtocolError):  # it is being closed after an error
            super().shutdown()

    @contextmanager
    def on_disconnect(self, leave: Callable[[], None]) -> Iterator[None]:
        """Call the function when the connection is closed, by the client as well, from which nothing is read."""

        def close() -> None:
            leave()
            self.transport.abort()

        if self.cycle.disconnected:
            leave()
        self.leave = leave
        try:
            with self.all_connections.hang_ups.observed(self.loop, self.transport, close):
                yield
        finally:
            self.leave = None


class HangUps:
    """Notices that clients have closed their connections while the service does not read what they send."""

    def __init__(self) -> None:
        self.epoll = select.epoll() if sys.platform == "linux" else None
        self.callbacks: dict[int, Callable[[], None]] = {}  # by the descriptor of an open connection

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
            if (
                self.callbacks.get(descriptor) is close
            ):  # otherwise it was closed, and is another connection's now
                del self.callbacks[descriptor]
                with suppress(OSError):
                    self.epoll.unregister(descriptor)
            if not self.callbacks:
                loop.remove_reader(self.epoll.fileno())

    def _notify(self) -> None:
        assert self.epoll is not None
        for descriptor, _ in self.epoll.poll(0):
            if descriptor in self.callbacks:
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
