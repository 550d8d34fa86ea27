"""The events of a training as server-sent events.

Workers write the events to the store, so any process of the service can send them; here the store is polled in a thread.
A client that lost its connection sends the number of the last event it received (``Last-Event-ID``) and misses nothing.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import anyio
from anyio import to_thread

from ..errors import FitError
from .deps import Service
from .errors import ApiError
from .store import JsonObject, ProjectId, User
from .store.trainings import ENDED


def open_event_stream(
    service: Service, user: User, project: ProjectId, training: str, after: int
) -> AsyncIterator[bytes]:
    """Return the events of a training, unless the user has too many open connections."""
    if service.event_streams[user.id] >= service.settings.max_event_streams:
        raise ApiError(429, "too_many", "Too many open event streams.", "Close one of them.", retry=5)
    return _events(service, user, project, training, after)


async def _events(
    service: Service, user: User, project: ProjectId, id: str, after: int
) -> AsyncIterator[bytes]:
    """Yield the events until the last one; when a client disconnects, this generator is closed."""
    trainings, settings = service.store.trainings, service.settings
    service.event_streams[user.id] += 1
    service.metrics.event_streams.inc()
    try:
        yield b"retry: 2000\n\n"
        idle = 0.0
        while not service.stopping.is_set():
            training = await to_thread.run_sync(trainings.get, project, id)
            events = await to_thread.run_sync(trainings.events, project, id, after)
            for event in events:
                after = event.number
                yield encode_event(event.kind, event.data, event.number)
                if event.kind == "end":
                    return
            if not events and training.state in ENDED:  # the client has received the last event already
                yield encode_event("end", {"state": training.state, "message": training.message})
                return
            idle = 0.0 if events else idle + settings.poll_seconds
            if idle >= settings.heartbeat_seconds:
                idle = 0.0
                yield b": still here\n\n"
            await anyio.sleep(settings.poll_seconds)
    except FitError:  # the user was deleted, or the store is unavailable: the client's next request shows it
        return
    finally:
        service.metrics.event_streams.dec()
        service.event_streams[user.id] -= 1
        if service.event_streams[user.id] <= 0:
            del service.event_streams[user.id]


def encode_event(kind: str, data: JsonObject, number: int | None = None) -> bytes:
    """Return one server-sent event; JSON contains no line breaks, so the data is one line."""
    id_line = f"id: {number}\n" if number is not None else ""
    return f"{id_line}event: {kind}\ndata: {json.dumps(data)}\n\n".encode()
