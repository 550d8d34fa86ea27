"""A training's news as server-sent events.

The news stand in the store, where the worker writes them, so any number of processes can tell them; here they are
looked for at short intervals, in a thread. A client that lost the connection names the last event it had
(``Last-Event-ID``) and misses nothing.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import anyio
from anyio import to_thread

from ..errors import FitError
from .errors import Refusal
from .service import Service
from .store import User

OVER = frozenset(["done", "failed", "cancelled"])


def open_stream(service: Service, user: User, training: str, after: int) -> AsyncIterator[bytes]:
    """The stream, unless this user has too many already."""
    if service.streams[user.id] >= service.settings.streams:
        raise Refusal(429, "too_many", "Too many open event streams.", "Close one of them.", retry=5)
    return _stream(service, user, training, after)


async def _stream(service: Service, user: User, training: str, after: int) -> AsyncIterator[bytes]:
    """Events as they come, until the last; a client that is gone ends it by closing this generator."""
    store = service.store
    service.streams[user.id] += 1
    service.metrics.streams.inc()
    try:
        yield b"retry: 2000\n\n"
        silent = 0.0
        while not service.stopping.is_set():
            state = await to_thread.run_sync(store.training, user.id, training)
            news = await to_thread.run_sync(partial(store.events, user.id, training, after=after))
            for event in news:
                after = event.number
                yield frame(event.kind, event.data, event.number)
                if event.kind == "end":
                    return
            if not news and state.state in OVER:  # the client has had the last word already
                yield frame("end", {"state": state.state, "message": state.message})
                return
            silent = 0.0 if news else silent + service.settings.poll
            if silent >= service.settings.heartbeat:
                silent = 0.0
                yield b": still here\n\n"
            await anyio.sleep(service.settings.poll)
    except FitError:  # the user is gone, or the store: the client asks again and is told
        return
    finally:
        service.metrics.streams.dec()
        service.streams[user.id] -= 1
        if service.streams[user.id] <= 0:
            del service.streams[user.id]


def frame(kind: str, data: dict[str, Any], number: int | None = None) -> bytes:
    """One event; JSON has no line breaks of its own, so neither has the frame."""
    mark = f"id: {number}\n" if number is not None else ""
    return f"{mark}event: {kind}\ndata: {json.dumps(data)}\n\n".encode()
