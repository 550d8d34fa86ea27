"""The events of a training as server-sent events.

Workers write the events to the store, so any process of the service can send them; here the store is polled in a thread.
A client that lost its connection sends the number of the last event it received (``Last-Event-ID``) and misses nothing.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import anyio
from anyio import to_thread
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ..errors import FitError
from .deps import Service
from .errors import ApiError
from .store import JsonObject, ProjectId, User
from .store.trainings import ENDED


class EventStreamResponse(StreamingResponse):
    """The events of a training; a user has a limited number of such responses at the same time."""

    def __init__(self, service: Service, user: User, project: ProjectId, training: str, after: int) -> None:
        super().__init__(
            _events(service, project, training, after),
            media_type="text/event-stream",
            headers={"X-Accel-Buffering": "no"},
        )
        self.service = service
        self.user = user

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events, unless the user has too many open streams; nothing happens between check and count."""
        open_streams, gauge = self.service.event_streams, self.service.metrics.event_streams
        if open_streams[self.user.id] >= self.service.settings.max_event_streams:
            raise ApiError(429, "too_many", "Too many open event streams.", "Close one of them.", retry=5)
        open_streams[self.user.id] += 1
        gauge.inc()
        try:
            await super().__call__(scope, receive, send)
        finally:
            gauge.dec()
            open_streams[self.user.id] -= 1
            if not open_streams[self.user.id]:
                del open_streams[self.user.id]


async def _events(service: Service, project: ProjectId, id: str, after: int) -> AsyncIterator[bytes]:
    """Yield the events until the last one; when a client disconnects, this generator is closed."""
    trainings, settings = service.store.trainings, service.settings
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


def encode_event(kind: str, data: JsonObject, number: int | None = None) -> bytes:
    """Return one server-sent event; JSON contains no line breaks, so the data is one line."""
    id_line = f"id: {number}\n" if number is not None else ""
    return f"{id_line}event: {kind}\ndata: {json.dumps(data)}\n\n".encode()
