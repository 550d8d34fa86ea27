"""``fit serve`` with many connections at once, and its end while much is going on."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from typing import Any

import pytest

from filmtransfer.serve.store import Store, StoreLocation
from tests.serve.conftest import encoded

from .service_process import TIMEOUT, Serving, events, fill, user_of
from .updates import photo

LARGE, SMALL = 380, 20  # requests of two users


async def predict(host: str, port: int, token: str, start: asyncio.Event) -> tuple[int, dict[str, str], Any]:
    """Return status, headers and document of the response to a request on a connection of its own."""
    reader, writer = await asyncio.open_connection(host, port)
    await start.wait()
    body = encoded(1, 3)
    head = f"POST /api/predictions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: image/jpeg\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
    document = json.loads(await reader.readexactly(int(headers["content-length"])))
    writer.close()
    return int(lines[0].split()[1]), headers, document


async def crowd(host: str, port: int, tokens: list[str]) -> list[tuple[int, dict[str, str], Any]]:
    """Send a request for each token, after all connections were made."""
    start = asyncio.Event()
    tasks = [asyncio.create_task(predict(host, port, token, start)) for token in tokens]
    await asyncio.sleep(0)
    start.set()
    async with asyncio.timeout(TIMEOUT):
        return await asyncio.gather(*tasks)


@pytest.mark.process(seconds=40)
def test_a_crowd_is_served_in_turns_and_the_end_loses_nothing(tmp_path, update_file):
    """Each of hundreds of requests gets a prediction or is told when to return; then SIGTERM during a training."""
    serving = Serving(tmp_path / "service", "--rate", "1000000", "--lease", "1000", "--threads", "1")
    try:
        about = serving.about()
        host, port = about["url"].removeprefix("http://").rstrip("/").split(":")
        store = Store.open(StoreLocation.of(tmp_path / "service" / "kept"))
        other = store.users.create("other")[1]
        for token in (about["token"], other):
            with user_of(about["url"], token) as client:
                file = {"Content-Type": "application/octet-stream"}
                client.post(
                    "/api/versions", content=update_file.read_bytes(), headers=file
                ).raise_for_status()

        tokens = LARGE * [about["token"]] + SMALL * [other]
        responses = asyncio.run(crowd(host, int(port), tokens))
        counts: Counter[tuple[str, int]] = Counter()
        for token, (status, headers, document) in zip(tokens, responses, strict=True):
            counts["small" if token == other else "large", status] += 1
            if status == 200:
                assert {one["class"] for one in document["probabilities"]} == {"disc", "bars", "plain"}
            else:
                assert (status, document["error"]["code"]) == (503, "busy")
                assert 1 <= int(headers["retry-after"]) <= 60
        assert counts["small", 200] / SMALL >= counts["large", 200] / LARGE, counts
        assert counts["small", 200], counts

        with user_of(about["url"], about["token"]) as client:
            fill(client, photo, classes=2, shots=2)
            training = client.post("/api/trainings", json={"steps": 1000}).json()["id"]
            project = store.projects.resolve(store.users.by_token(about["token"]).id)
            stream = events(client, training)
            assert next(kind for _, kind, _ in stream if kind == "progress")
            serving.process.send_signal(signal.SIGTERM)
            list(stream)  # it ends, as does the service
        assert serving.process.wait(TIMEOUT) == 0
        assert store.trainings.get(project, training).state == "waiting"
        assert "Traceback" not in serving.err.read_text()
        assert store.trainings.claim("the next start", 10).id == training
        store.close()
    finally:
        serving.end()
