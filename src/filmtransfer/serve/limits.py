"""How much, how often: bodies that are too large and visitors that are too busy.

Bytes are counted while they come in, because a framework that first collects the whole body has lost already. A
refused body is not read to its end: the answer goes out at once, then a little more is taken and thrown away, so that
a client that is still sending gets to read it, and the connection is closed.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable

import anyio
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import Refusal, answer_to
from .settings import Settings

LINGER_BYTES = 1_000_000
LINGER_SECONDS = 2.0


class Rates:
    """So many requests a minute for each key; a bucket that fills up again steadily."""

    def __init__(
        self, a_minute: int, keys: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.a_minute = a_minute
        self.keys = keys
        self.clock = clock
        self.lock = threading.Lock()
        self.left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests left, and when that was

    def count(self, key: str) -> None:
        """One more; refuses it when there were too many."""
        now = self.clock()
        with self.lock:
            left, then = self.left.pop(key, (float(self.a_minute), now))
            left = min(self.a_minute, left + (now - then) * self.a_minute / 60)
            self.left[key] = (left - 1 if left >= 1 else left, now)
            if len(self.left) > self.keys:  # who was not here for longest has a full bucket by now
                self.left.popitem(last=False)
        if left < 1:
            wait = math.ceil((1 - left) * 60 / self.a_minute)
            raise Refusal(
                429, "too_many", "Too many requests.", f"Try again in {wait} s.", retry=max(1, wait)
            )


class Bodies:
    """ASGI middleware: a body has a size it may not exceed, and large ones are few at a time."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.settings = settings
        self.receiving: Counter[str] = Counter()  # uploads under way, by user

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        limit = self.limit(scope)
        if _announced(scope) > limit:
            return await refuse(answer_to(_too_large(limit), close=True), scope, receive, send)
        if limit == self.settings.max_json_bytes:
            await self.counted(limit, scope, receive, send)
            return None
        who = getattr(scope.get("state", {}).get("user"), "id", "")
        if (
            self.receiving.total() >= self.settings.uploads
            or self.receiving[who] >= self.settings.uploads / 2
        ):
            busy = Refusal(503, "busy", "Too many uploads at once.", "Try again in a moment.", retry=1)
            await refuse(answer_to(busy, close=True), scope, receive, send)
            return None
        self.receiving[who] += 1
        try:
            await self.counted(limit, scope, receive, send)
        finally:
            self.receiving[who] -= 1
            if not self.receiving[who]:
                del self.receiving[who]

    def limit(self, scope: Scope) -> int:
        if scope["method"] == "POST":
            if scope["path"] == "/api/predictions" or scope["path"].endswith("/photos"):
                return self.settings.max_photo_bytes
            if scope["path"] == "/api/versions":
                return self.settings.max_update_bytes
        return self.settings.max_json_bytes

    async def counted(self, limit: int, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the body on, and step in when it is too large or too slow, whatever the application makes of that."""
        came, whole, began = 0, False, False
        refusal: Refusal | None = None
        deadline = anyio.current_time() + self.settings.body_seconds

        async def counting() -> Message:
            nonlocal came, whole, refusal
            if whole:  # what comes now is the client's going away, which may take its time
                return await receive()
            message: Message = {}
            with anyio.move_on_after(min(self.settings.silence, deadline - anyio.current_time())):
                message = await receive()
            came += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if came > limit or not message:
                refusal = _too_large(limit) if message else _too_slow()
                raise refusal
            return message

        async def unless_refused(message: Message) -> None:
            nonlocal began
            if refusal is None or began:
                began = True
                await send(message)

        try:
            await self.app(scope, counting, unless_refused)
        except Exception:
            if refusal is None:
                raise
        if refusal is not None and not began:
            await refuse(answer_to(refusal, close=True), scope, receive, send)


async def refuse(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer before the body is there."""

    async def answer_first(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "more_body": True}
        await send(message)

    await response(scope, receive, answer_first)
    taken = 0
    if _has_body(scope):
        with anyio.move_on_after(LINGER_SECONDS):
            while taken < LINGER_BYTES:
                message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    break
                taken += len(message.get("body", b""))
    await send({"type": "http.response.body", "body": b""})


def _too_large(limit: int) -> Refusal:
    return Refusal(413, "too_large", f"This is larger than {limit / 1e6:g} MB.", "Send something smaller.")


def _too_slow() -> Refusal:
    return Refusal(408, "too_slow", "The body did not come in time.", "Send it again.")


def _announced(scope: Scope) -> int:
    length = Headers(scope=scope).get("content-length", "0")
    return int(length) if length.isdecimal() else 0


def _has_body(scope: Scope) -> bool:
    return _announced(scope) > 0 or "transfer-encoding" in Headers(scope=scope)
