"""Users take turns: no user's requests, however many, keep those of another one waiting behind all of them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

POLL_SECONDS = 0.1


@dataclass(eq=False)
class _Request:
    user: str
    arrival: int
    granted: anyio.Event = field(default_factory=anyio.Event)


class UserTurns:
    """Grants turns, a few at the same time: the next one goes to the user whose last turn is the longest ago."""

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self._order = itertools.count(1)
        self._running = 0
        self._waiting: list[_Request] = []
        self._requests: Counter[str] = Counter()  # running or waiting, by user
        self._last_turn: dict[str, int] = {}  # of users who have such requests

    def requests(self, user: str) -> int:
        """Return how many requests of a user are running or waiting."""
        return self._requests[user]

    @asynccontextmanager
    async def turn(self, user: str, check: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
        """Wait for a turn and hold it; ``check`` is called while it waits, and raises an error to stop that."""
        request = _Request(user, next(self._order))
        self._waiting.append(request)
        self._requests[user] += 1
        try:
            self._grant()
            while not request.granted.is_set():
                await check()
                with anyio.move_on_after(POLL_SECONDS):
                    await request.granted.wait()
            yield
        finally:
            self._leave(request)

    def _grant(self) -> None:
        while self._waiting and self._running < self.at_once:
            request = min(
                self._waiting, key=lambda waiting: (self._last_turn.get(waiting.user, 0), waiting.arrival)
            )
            self._waiting.remove(request)
            self._running += 1
            self._last_turn[request.user] = next(self._order)
            request.granted.set()

    def _leave(self, request: _Request) -> None:
        if request.granted.is_set():
            self._running -= 1
        else:
            self._waiting.remove(request)
        self._requests[request.user] -= 1
        if not self._requests[request.user]:
            del self._requests[request.user]
            self._last_turn.pop(request.user, None)
        self._grant()
