"""The events of a training, as a client receives them."""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack
from typing import Any

import pytest

from filmtransfer.serve.settings import LEASE
from tests.serve.conftest import add_two_classes

JSON = dict[str, Any]


@pytest.fixture
def training(service, request):
    """Return the worker that has claimed a training, the client of its user, and its id."""
    name = request.node.name
    service.add_user(name)
    client = service.client(name)
    add_two_classes(client)
    made = client.post("/api/trainings", json={}).json()["id"]
    assert service.store.trainings.claim(name, LEASE).id == made
    return name, client, made


def parsed(lines) -> list[JSON]:
    """Return the events: id, event, data."""
    events: list[JSON] = []
    one: JSON = {}
    for line in lines:
        if line == "" and "event" in one:
            events.append(one | {"data": json.loads(one["data"])})
            one = {}
        elif ": " in line and not line.startswith(":"):
            key, value = line.split(": ", 1)
            one[key] = value
    return events


def read(client, training: str, **more: Any) -> list[JSON]:
    with client.stream("GET", f"/api/trainings/{training}/events", **more) as stream:
        assert stream.status_code == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert stream.headers["cache-control"] == "no-store"
        return parsed(stream.iter_lines())


def test_events_arrive_during_the_training(service, training):
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
            if line.startswith("data:") and len(seen) < 8:  # after the first event, add the others
                thread = threading.Thread(target=work)
                thread.start()
    thread.join()
    events = parsed(seen)
    assert [one["event"] for one in events] == ["progress", "version", "end"]
    assert [one["id"] for one in events] == ["1", "2", "3"]
    assert events[-1]["data"] == {"state": "done", "message": "two\nlines"}


def test_events_continue_after_a_lost_connection(service, training):
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
    ]  # all events were received: it still ends
    assert len(read(client, id, headers={"Last-Event-ID": "nonsense"})) == 4


def test_cancelling_ends_the_events(training):
    _, client, id = training
    client.delete(f"/api/trainings/{id}").raise_for_status()
    assert read(client, id)[-1]["data"]["state"] == "cancelled"


def test_heartbeats_and_disconnected_clients(service, training):
    _, client, id = training
    inside = service.app.state.service
    with client.stream("GET", f"/api/trainings/{id}/events") as stream:
        lines = stream.iter_lines()  # a reference: httpx closes the response with it
        while (line := next(lines)) != ": still here":
            assert line in ("", "retry: 2000")
        assert sum(inside.event_streams.values()) == 1
    while inside.event_streams:  # an event stream that stayed open would block the test
        threading.Event().wait(0.01)


def test_a_user_has_a_limited_number_of_event_streams(training):
    _, client, id = training
    path = f"/api/trainings/{id}/events"
    with ExitStack() as stack:
        held = [stack.enter_context(client.stream("GET", path)).iter_raw() for _ in range(8)]
        for stream in held:
            next(stream)  # it has started
        refused = client.get(path)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
