"""A training's news, as they come to a browser."""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack
from typing import Any

import pytest

JSON = dict[str, Any]


@pytest.fixture
def training(service, request):
    """A training that a worker has taken, and its user's client."""
    name = request.node.name
    service.add_user(name)
    client = service.client(name)
    made = client.post("/api/trainings", json={}).json()["id"]
    assert service.store.trainings.claim(name).id == made
    return name, client, made


def parsed(lines) -> list[JSON]:
    """Events of a stream: id, event, data."""
    found: list[JSON] = []
    one: JSON = {}
    for line in lines:
        if line == "" and "event" in one:
            found.append(one | {"data": json.loads(one["data"])})
            one = {}
        elif ": " in line and not line.startswith(":"):
            key, value = line.split(": ", 1)
            one[key] = value
    return found


def read(client, training: str, **more: Any) -> list[JSON]:
    with client.stream("GET", f"/api/trainings/{training}/events", **more) as stream:
        assert stream.status_code == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert stream.headers["cache-control"] == "no-store"
        return parsed(stream.iter_lines())


def test_events_come_while_it_runs_and_end_with_the_last(service, training):
    worker, client, id = training
    store = service.store
    store.trainings.add_event(id, worker, "progress", {"step": 1, "steps": 2})
    seen: list[str] = []

    def work() -> None:
        store.trainings.add_event(id, worker, "version", {"number": 1, "stage": "first"})
        store.trainings.end(id, worker, "done", "two\nlines")

    with client.stream("GET", f"/api/trainings/{id}/events") as stream:
        lines = stream.iter_lines()
        for line in lines:
            seen.append(line)
            if line.startswith("data:") and len(seen) < 8:  # the first one is here: now the others happen
                thread = threading.Thread(target=work)
                thread.start()
    thread.join()
    events = parsed(seen)
    assert [one["event"] for one in events] == ["progress", "version", "end"]
    assert [one["id"] for one in events] == ["1", "2", "3"]
    assert events[-1]["data"] == {"state": "done", "message": "two\nlines"}


def test_a_stream_goes_on_where_it_was_lost(service, training):
    worker, client, id = training
    for step in range(1, 4):
        service.store.trainings.add_event(id, worker, "progress", {"step": step})
    service.store.trainings.end(id, worker, "failed", "no")
    assert [one["data"].get("step") for one in read(client, id)] == [1, 2, 3, None]
    later = read(client, id, headers={"Last-Event-ID": "2"})
    assert [one["id"] for one in later] == ["3", "4"]
    assert [one["id"] for one in read(client, id, params={"after": 3})] == ["4"]
    assert [one["event"] for one in read(client, id, params={"after": 4})] == [
        "end"
    ]  # had it all: still ends
    assert len(read(client, id, headers={"Last-Event-ID": "nonsense"})) == 4


def test_cancelling_ends_the_stream(training):
    _, client, id = training
    client.delete(f"/api/trainings/{id}").raise_for_status()
    assert read(client, id)[-1]["data"]["state"] == "cancelled"


def test_silence_is_broken_by_a_heartbeat_and_a_gone_client_ends_the_stream(service, training):
    _, client, id = training
    inside = service.app.state.service
    with client.stream("GET", f"/api/trainings/{id}/events") as stream:
        lines = stream.iter_lines()  # held: httpx closes the stream with it
        while (line := next(lines)) != ": still here":
            assert line in ("", "retry: 2000")
        assert sum(inside.event_streams.values()) == 1
    while inside.event_streams:  # it notices by itself; a stream that stayed would hang the test
        threading.Event().wait(0.01)


def test_one_user_has_few_streams(training):
    _, client, id = training
    path = f"/api/trainings/{id}/events"
    with ExitStack() as stack:
        held = [stack.enter_context(client.stream("GET", path)).iter_raw() for _ in range(8)]
        for stream in held:
            next(stream)  # it has begun
        refused = client.get(path)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
