"""A ``fit serve`` to be attacked, and what it costs meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from io import BytesIO
from pathlib import Path
from urllib.parse import urlparse

import numpy as np
from PIL import Image

from filmtransfer import FewShotClassifier

SAMPLE_SECONDS = 0.02  # between two measurements of memory
TIMEOUT = 120.0
JSON, BINARY = "application/json", "application/octet-stream"


@dataclass
class Outcome:
    """The answers to the requests of an attack."""

    answers: list[tuple[str, bytes]] = field(default_factory=list)  # status, or why there was none; body

    @property
    def received(self) -> int:
        """The bytes of all answers."""
        return sum(len(body) for _, body in self.answers)

    def statuses(self) -> dict[str, int]:
        """Return how many answers had each status."""
        return dict(sorted(Counter(status for status, _ in self.answers).items()))


@dataclass
class Observation:
    """What was measured of a service during an attack."""

    peak: float = 0.0  # MB
    slowest: float = 0.0  # seconds of a health check
    prediction: float = 0.0  # seconds of the slowest prediction of another user
    refused: int = 0  # predictions of that user without an answer


class AttackedService:
    """A service with two users, each with a classifier: the attacker, and another one who uses it as usual."""

    def __init__(self, checkout: Path | None = None) -> None:
        self.folder = tempfile.TemporaryDirectory()
        environment = os.environ | ({} if checkout is None else {"PYTHONPATH": str(checkout / "src")})
        self.process = subprocess.Popen(
            [sys.executable, "-m", "filmtransfer", "serve", self.folder.name, *["--workers", "0", "--port", "0", "--json"]],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
        )  # fmt: skip
        assert self.process.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            line = self.process.stdout.readline()
            assert line, "the service did not start"
            text += line
        about = json.loads(text)
        self.address, self.token = urlparse(about["url"]).netloc, about["token"]

    def __enter__(self) -> AttackedService:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()

    def prepare(self) -> None:
        """Create a class, another user, and a classifier for both, and predict, so that everything is loaded."""
        self.class_id = self._created("/api/classes", {"name": "class"})["id"]
        admin = (Path(self.folder.name) / "admin-token").read_text().strip()
        self.other = self._created("/api/users", {"name": "other"}, admin)["token"]
        content = classifier()
        for token in (self.token, self.other):
            status, body = self.ask("POST", "/api/versions", content, token=token)
            assert status == "201", body
            status, body = self.ask("POST", "/api/predictions", small_photo(), token=token)
            assert status == "200", body

    def _created(self, path: str, content: dict[str, str], token: str = "") -> dict[str, str]:
        status, body = self.ask("POST", path, json.dumps(content).encode(), JSON, token)
        assert status == "201", body
        created: dict[str, str] = json.loads(body)
        return created

    def ask(
        self, method: str, path: str, body: bytes | None = None, kind: str = BINARY, token: str = ""
    ) -> tuple[str, bytes]:
        """Send one request, of the attacker or with another token; return its status or error, and the body."""
        connection = HTTPConnection(self.address, timeout=TIMEOUT)
        try:
            connection.request(
                method, path, body, {"Authorization": f"Bearer {token or self.token}", "Content-Type": kind}
            )
            response = connection.getresponse()
            return str(response.status), response.read()
        except (OSError, HTTPException) as error:
            return type(error).__name__, b""
        finally:
            connection.close()

    def ask_together(self, requests: Sequence[tuple[str, str, bytes | None]]) -> Outcome:
        """Send requests at the same time."""
        with ThreadPoolExecutor(len(requests)) as pool:
            return Outcome(list(pool.map(lambda request: self.ask(*request), requests)))

    def memory(self) -> float:
        """Return the memory of all processes of the service in MB, shared pages divided by their processes."""
        return sum(pss(pid) for pid in [self.process.pid, *descendants(self.process.pid)])

    def alive(self) -> bool:
        """Return whether the service still runs."""
        return self.process.poll() is None

    @contextmanager
    def observed(self) -> Iterator[Observation]:
        """Measure memory and health checks until the block ends."""
        observed, ended = Observation(), threading.Event()

        def measure_memory() -> None:
            while not ended.wait(SAMPLE_SECONDS):
                observed.peak = max(observed.peak, self.memory())

        def check_health() -> None:
            while not ended.wait(0.1):
                start = time.perf_counter()
                self.ask("GET", "/healthz")
                observed.slowest = max(observed.slowest, time.perf_counter() - start)

        def predict() -> None:
            photo = small_photo()
            while not ended.wait(0.2):
                start = time.perf_counter()
                status, _ = self.ask("POST", "/api/predictions", photo, token=self.other)
                observed.prediction = max(observed.prediction, time.perf_counter() - start)
                observed.refused += status != "200"

        threads = [threading.Thread(target=target) for target in (measure_memory, check_health, predict)]
        for thread in threads:
            thread.start()
        try:
            yield observed
        finally:
            ended.set()
            for thread in threads:
                thread.join()


def pss(pid: int) -> float:
    """Return the memory of a process in MB; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that they have started."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []
    return children + [one for child in children for one in descendants(child)]


def small_photo() -> bytes:
    """Return a small JPEG."""
    out = BytesIO()
    Image.new("RGB", (64, 64), (200, 30, 60)).save(out, "JPEG")
    return out.getvalue()


def classifier(**options: object) -> bytes:
    """Return an update of two classes."""
    generator = np.random.default_rng(0)
    images = list(generator.integers(0, 256, (8, 64, 64, 3), dtype=np.uint8))
    trained = FewShotClassifier(steps=0, seed=0, **options).fit(images, ["a", "b"] * 4)  # type: ignore[arg-type]
    return trained.update_.to_bytes()
