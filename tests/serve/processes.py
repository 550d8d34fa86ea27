"""``fit serve`` as people start it: a process of its own, spoken to over HTTP."""

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

PATIENCE = 240  # seconds; a machine may have much else to do


def until(true: Callable[[], Any]) -> Any:
    """Wait for something to become true, and return it."""
    deadline = time.monotonic() + PATIENCE
    while not (found := true()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
    return found


class Serving:
    """One ``fit serve``; its output goes to files in its folder."""

    def __init__(self, folder: Path, *words: str, **environment: str) -> None:
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
                [*command, *words], stdout=out, stderr=err, env={**os.environ, **environment}
            )

    def about(self) -> dict[str, Any]:
        """What it says when it is ready."""

        def said() -> Any:
            if self.process.poll() is not None:
                pytest.fail(f"fit serve ended: {self.err.read_text()[-3000:]}")
            try:
                return json.loads(self.out.read_text())
            except ValueError:
                return None

        found: dict[str, Any] = until(said)
        return found

    def children(self) -> list[int]:
        """Each thread has its own."""
        threads = Path(f"/proc/{self.process.pid}/task").iterdir()
        found = " ".join((thread / "children").read_text() for thread in threads)
        return [int(word) for word in found.split()]

    def kill(self) -> None:
        """As a power cut would: itself and its workers, without a word."""
        for pid in (*self.children(), self.process.pid):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(PATIENCE)


def user_of(url: str, token: str) -> httpx.Client:
    return httpx.Client(
        base_url=url, headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=PATIENCE
    )


def events(client: httpx.Client, training: str, after: int = 0) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """(number, kind, data) of a training's events, as they come."""
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
    found: dict[str, Any] = answer.json()
    return found
