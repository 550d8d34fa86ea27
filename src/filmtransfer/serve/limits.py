"""Limits on requests: their rate, and the number, size and duration of their bodies.

Requests with a large body wait for their turn before it is read, so that under overload the service keeps working at its
full pace and its memory stays bounded: the clients keep what they have to send. A request that will not be served in time
is refused at once, with the time after which to try again. Bytes are counted while they arrive, because a framework
that collects the complete body first has used the memory by then. A body that is refused is not read to its end unless it
has arrived already: the response is sent at once, a little more is read and discarded so that a client that is still sending gets to read the
response, and the connection is closed.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import anyio
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..budgets import LINGER_BYTES, LINGER_SECONDS, READ_BYTES
from ..errors import FitError
from .errors import RETRY_SECONDS, ApiError, response_to
from .settings import ServiceSettings
from .turns import LineFullError, Turn, UserTurns, retry_after

ON_DISCONNECT = "on_disconnect"  # in the state of a request: a context in which a function is called when the client leaves
TURN = "turn"  # in the state of a request with a photo: its turn
CHECK_SECONDS = (
    0.5  # between two looks at whether an idle turn has to end for others, or because the service ends
)
PREDICTIONS, PHOTOS, VERSIONS = "/api/predictions", "/api/classes/{id}/photos", "/api/versions"
PHOTOS_PATH = re.compile(re.escape(PHOTOS).replace(r"\{id\}", "[^/]*"))


class RateLimiter:
    """A token bucket for each key, which refills at a constant rate."""

    def __init__(
        self, per_minute: int, keys: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.per_minute = per_minute
        self.keys = keys
        self.clock = clock
        self.lock = threading.Lock()
        self.buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # remaining requests, time

    def count(self, key: str) -> None:
        """Count one request; raise status 429 if there were too many."""
        now = self.clock()
        with self.lock:
            remaining, then = self.buckets.pop(key, (float(self.per_minute), now))
            remaining = min(self.per_minute, remaining + (now - then) * self.per_minute / 60)
            self.buckets[key] = (remaining - 1 if remaining >= 1 else remaining, now)
            if len(self.buckets) > self.keys:  # the least recent bucket is full again by now
                self.buckets.popitem(last=False)
        if remaining < 1:
            wait = math.ceil((1 - remaining) * 60 / self.per_minute)
            raise ApiError(
                429, "too_many", "Too many requests.", f"Try again in {wait} s.", retry=max(1, wait)
            )


class Refusals:
    """The clients that have to try again later; until then they are refused before they are authenticated.

    Authentication is most of the cost of a refusal, so those who do not wait leave more time for the requests of others.
    """

    def __init__(self, keys: int = 10_000, clock: Callable[[], float] = time.monotonic) -> None:
        self.keys = keys
        self.clock = clock
        self.until: OrderedDict[str, float] = OrderedDict()

    def add(self, token: str, seconds: int) -> ApiError:
        """Refuse a token for some seconds; return the error."""
        self.until.pop(token, None)
        self.until[token] = self.clock() + seconds
        if len(self.until) > self.keys:
            self.until.popitem(last=False)
        return busy(seconds)

    def check(self, token: str) -> None:
        """Raise the error again while the token is refused."""
        if token not in self.until:
            return
        seconds = self.until[token] - self.clock()
        if seconds > 0:
            raise busy(math.ceil(seconds))
        del self.until[token]


class BodyLimitMiddleware:
    """ASGI middleware that limits the size of bodies; large ones are received in turns (turns.py)."""

    def __init__(
        self,
        app: ASGIApp,
        settings: ServiceSettings,
        photos: UserTurns,
        files: UserTurns,
        refusals: Refusals,
    ) -> None:
        self.app = app
        self.settings = settings
        self.photos = photos
        self.files = files
        self.refusals = refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        limit, turns = self.limit(scope)
        if _content_length(scope) > limit:
            return await refuse(_too_large(limit), scope, receive, send)
        if turns is None:
            return await self.forward(limit, scope, receive, send)
        user = getattr(scope.get("state", {}).get("user"), "id", "")
        try:
            if turns.expected_wait(user) > self.settings.max_wait:
                raise LineFullError
            async with turns.turn(user, partial(wait_for_turn, scope, self.settings.max_wait)) as turn:
                scope.setdefault("state", {})[TURN] = turn
                await self.forward(limit, scope, receive, send, partial(turns.must_end, turn), turn)
        except LineFullError:
            if turns.closed:
                return await refuse(ending(), scope, receive, send, linger=0)
            seconds = retry_after(turns.expected_wait(user) - self.settings.max_wait)
            token = scope.get("state", {}).get("token", "")
            error = self.refusals.add(token, seconds) if turns is self.photos else busy(seconds)
            await refuse(error, scope, receive, send)

    def limit(self, scope: Scope) -> tuple[int, UserTurns | None]:
        """Return the largest body, in bytes, that the path accepts, and the turns in which such bodies are received."""
        route = route_of_body(scope)
        if route is None:
            return self.settings.max_json_bytes, None
        if route == VERSIONS:
            return self.settings.max_update_bytes, self.files
        return self.settings.max_photo_bytes, self.photos

    async def forward(
        self,
        limit: int,
        scope: Scope,
        receive: Receive,
        send: Send,
        must_end: Callable[[], bool] = lambda: False,
        turn: Turn | None = None,
    ) -> None:
        """Forward the request; refuse a body that is too large or too slow, whatever the application does then.

        ``must_end`` tells whether the ``turn`` of the request has to end while its body arrives (turns.py).
        """
        turn = turn or Turn("", 0)
        received, complete, responding = 0, False, False
        refusal: ApiError | None = None
        expected = _content_length(scope) or limit
        start = anyio.current_time()

        async def limited_receive() -> Message:
            nonlocal received, complete, refusal
            if complete:  # the next message is the client's disconnect, which may take any time
                return await receive()
            message: Message = {}
            now = anyio.current_time()
            end = min(now + self.settings.max_pause, start + self.settings.max_body_seconds)
            turn.idle = True
            while not message and now < end and not must_end() and not self.photos.closed:
                with anyio.move_on_after(min(end - now, CHECK_SECONDS)):
                    message = await receive()
                now = anyio.current_time()
            turn.idle = False
            received += len(message.get("body", b""))
            turn.progress = min(1.0, received / expected)
            complete = not message.get("more_body", False)
            if received > limit or not message:
                refusal = _too_large(limit) if message else ending() if self.photos.closed else _too_slow()
                raise refusal
            return message

        async def send_unless_refused(message: Message) -> None:
            nonlocal responding
            if refusal is None or responding:
                responding = True
                await send(message)

        try:
            await self.app(scope, limited_receive, send_unless_refused)
        except Exception:
            if refusal is None:
                raise
        if refusal is not None and not responding:
            linger = 0 if self.photos.closed else LINGER_SECONDS
            await refuse(refusal, scope, receive, send, linger)


async def wait_for_turn(
    scope: Scope, seconds: float, decided: anyio.Event, must_end: Callable[[], bool] | None = None
) -> None:
    """Wait until the turn of a request is ``decided``, for as long as that makes sense, at most some seconds.

    ``must_end`` tells whether the turn that the request holds meanwhile has to end.
    """
    left = False

    def leave() -> None:
        nonlocal left
        left = True
        patience.cancel()

    with anyio.move_on_after(seconds) as patience, on_disconnect(scope, leave):
        while not (decided.is_set() or (must_end and must_end())):
            with anyio.move_on_after(CHECK_SECONDS if must_end else math.inf):
                await decided.wait()
    if left:
        raise ClientDisconnect


def on_disconnect(scope: Scope, leave: Callable[[], None]) -> AbstractContextManager[object]:
    """Return a context in which a function is called when the client of a request leaves."""
    observe = scope.get("state", {}).get(ON_DISCONNECT)
    return nullcontext() if observe is None else observe(leave)


def route_of_body(scope: Scope) -> str | None:
    """Return the route of a request with a large body, which has not been routed yet; None for all others."""
    if scope["method"] != "POST":
        return None
    path: str = scope["path"]
    return path if path in (PREDICTIONS, VERSIONS) else PHOTOS if PHOTOS_PATH.fullmatch(path) else None


def is_photo(scope: Scope) -> bool:
    """Return whether the body of a request is a photo."""
    return route_of_body(scope) in (PREDICTIONS, PHOTOS)


async def refuse(
    error: FitError, scope: Scope, receive: Receive, send: Send, linger: float = LINGER_SECONDS
) -> None:
    """Respond before the body is read; keep the connection if the complete body has arrived already."""
    if linger and await _has_arrived(scope, receive):
        await response_to(error)(scope, receive, send)
        return

    async def keep_open(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "more_body": True}
        await send(message)

    await response_to(error, close=True)(scope, receive, keep_open)
    discarded = 0
    if _content_length(scope) > 0 or "transfer-encoding" in Headers(scope=scope):
        with anyio.move_on_after(linger):
            while discarded < LINGER_BYTES:
                message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    break
                discarded += len(message.get("body", b""))
    await send({"type": "http.response.body", "body": b""})


async def _has_arrived(scope: Scope, receive: Receive) -> bool:
    """Discard what has arrived of a body, and return whether it was all; a long one has not, or is still being received."""
    if _content_length(scope) > READ_BYTES or "transfer-encoding" in Headers(scope=scope):
        return False
    with anyio.move_on_after(0):  # what has arrived is returned without waiting
        while (message := await receive())["type"] == "http.request":
            if not message.get("more_body"):
                return True
    return False


def _too_large(limit: int) -> ApiError:
    return ApiError(413, "too_large", f"The body is larger than {limit / 1e6:g} MB.", "Send a smaller file.")


def busy(seconds: int) -> ApiError:
    """Return the error for a request that gets no turn in time."""
    return ApiError(
        503,
        "busy",
        "The service has more requests than it can serve now.",
        f"Try again in {seconds} s.",
        seconds,
    )


def ending() -> ApiError:
    """Return the error for a request that gets no turn because the service ends."""
    return ApiError(503, "unavailable", "The service is ending.", "Try again in a moment.", RETRY_SECONDS)


def _too_slow() -> ApiError:
    return ApiError(408, "too_slow", "The body did not arrive in time.", "Send it again.")


def _content_length(scope: Scope) -> int:
    length = Headers(scope=scope).get("content-length", "0")
    return int(length) if length.isdecimal() else 0
