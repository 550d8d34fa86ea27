"""``fit serve`` as a process, and requests to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

TIMEOUT = 240  # seconds; the machine may be busy


def until(condition: Callable[[], Any]) -> Any:
    """Wait for something to become true, and return it."""
    deadline = time.monotonic() + TIMEOUT
    while not (value := condition()):
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.05)
    return value


class Serving:
    """One ``fit serve``; its output goes to files in its folder."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        folder.mkdir(parents=True)
        self.out, self.err = folder / "out", folder / "err"
        command = [
            sys.executable,
            "-m",
            "filmtransfer",
            "serve",
            str(folder / "kept"),
            "--port",
            "0",
            "--json",
        ]
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [*command, *arguments], stdout=out, stderr=err, env={**os.environ, **environment}
            )

    def about(self) -> dict[str, Any]:
        """Return the document that it prints when it is ready."""

        def printed() -> Any:
            if self.process.poll() is not None:
                pytest.fail(f"fit serve ended: {self.err.read_text()[-3000:]}")
            try:
                return json.loads(self.out.read_text())
            except ValueError:
                return None

        document: dict[str, Any] = until(printed)
        return document

    def children(self) -> list[int]:
        """Return the child processes of all threads."""
        threads = Path(f"/proc/{self.process.pid}/task").iterdir()
        pids = " ".join((thread / "children").read_text() for thread in threads)
        return [int(pid) for pid in pids.split()]

    def kill(self) -> None:
        """Kill the service and its workers, as a power failure would."""
        for pid in (*self.children(), self.process.pid):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(TIMEOUT)


def user_of(url: str, token: str) -> httpx.Client:
    return httpx.Client(
        base_url=url, headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=TIMEOUT
    )


def events(client: httpx.Client, training: str, after: int = 0) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield the number, kind and data of a training's events."""
    address = f"/api/trainings/{training}/events?after={after}"
    with client.stream("GET", address) as answer:
        assert answer.status_code == 200
        fields: dict[str, str] = {}
        for line in answer.iter_lines():
            if line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "event" in fields:
                yield int(fields.get("id", 0)), fields["event"], json.loads(fields["data"])
                fields = {}


def fill(
    client: httpx.Client, picture: Callable[[int, int], bytes], classes: int = 3, shots: int = 3
) -> None:
    for c in range(classes):
        made = client.post("/api/classes", json={"name": f"class {c}"})
        assert made.status_code == 201, made.text
        for i in range(shots):
            address = f"/api/classes/{made.json()['id']}/photos"
            sent = client.post(address, content=picture(c, 10 * c + i), headers={"Content-Type": "image/png"})
            assert sent.status_code == 201, sent.text


def predicted(client: httpx.Client, content: bytes) -> dict[str, Any]:
    answer = client.post("/api/predictions", content=content, headers={"Content-Type": "image/png"})
    assert answer.status_code == 200, answer.text
    prediction: dict[str, Any] = answer.json()
    return prediction
