"""The parts of serving.py over HTTP: latency of cached users and others, memory of a service, and the working set."""

from __future__ import annotations

import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from filmtransfer.serve.engine.cache import MB
from filmtransfer.serve.store import StoreLocation
from serving_engines import user_memory
from serving_setup import Setup, percentiles
from serving_users import Users

CLIENTS, WARM, COLD = 16, 50, 2_000  # concurrent clients; users of the two kinds of the part latency
HOT = 1_000  # users in the memory of a service
ACTIVE, CACHED, TURNS = (10, 100, 1_000, 10_000), 500, 2  # active users; how many of them the cache holds


class Service:
    """``fit serve`` on the users' store, as a process."""

    def __init__(
        self, users: Users, runtime: str = "onnx", cache_mb: int = 4000, checkout: Path | None = None
    ) -> None:
        """``checkout`` is that of the version before, which has no ``--runtime``."""
        self.users = users
        self.scratch = tempfile.TemporaryDirectory()
        location = StoreLocation.of(users.folder)
        options = f"--workers 0 --port 0 --json --rate 9999999 --cache-mb {cache_mb}"
        options += f" --runtime {runtime}" if checkout is None else ""
        environment = os.environ | ({} if checkout is None else {"PYTHONPATH": str(checkout / "src")})
        self.process = subprocess.Popen(
            [sys.executable, "-m", "filmtransfer", "serve", self.scratch.name, *options.split(), "--database", location.database, "--objects", str(location.objects)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
        )  # fmt: skip
        assert self.process.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            line = self.process.stdout.readline()
            assert line, "the service did not start"
            text += line
        self.address = urlparse(json.loads(text)["url"]).netloc

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()
        self.scratch.cleanup()

    def ask(self, connection: HTTPConnection, user: int, photo: bytes) -> float:
        """Return the seconds until the response, after a check that it is this user's."""
        headers = {"Authorization": f"Bearer {self.users.tokens[user]}", "Content-Type": "image/jpeg"}
        start = time.perf_counter()
        connection.request("POST", "/api/predictions", photo, headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        seconds = time.perf_counter() - start
        assert response.status == 200, answer
        assert all(one["class"].endswith(f" of {user}") for one in answer["probabilities"]), answer
        return seconds

    def ask_all(self, users: Sequence[int], photos: Sequence[bytes]) -> None:
        """Send one request of each user, from several clients."""

        def client(number: int) -> None:
            connection = HTTPConnection(self.address)
            for user in users[number::CLIENTS]:
                self.ask(connection, user, photos[user % len(photos)])
            connection.close()

        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(client, range(CLIENTS)))

    def memory(self) -> dict[str, float]:
        """Return the resident memory in MB, complete and with shared pages divided by their processes."""
        lines = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text().splitlines()[1:]
        sizes = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines}
        return {name: round(sizes[name], 1) for name in ("Rss", "Pss")}


def resident(setup: Setup) -> dict[str, Any]:
    """Measure the memory of a service: when it starts, when it has worked for a few users, and with many users."""
    memory: dict[str, dict[str, dict[str, float]]] = {}
    hot = range(min(HOT, len(setup.users.ids)))
    services = {"onnx": None, "torch": None} | ({"before": setup.before} if setup.before else {})
    for runtime, checkout in services.items():
        with Service(setup.users, runtime, checkout=checkout) as service:
            sizes = {"start": service.memory()}
            service.ask_all(4 * list(range(CLIENTS)), setup.photos)  # a user may send few at the same time
            sizes["few users"] = service.memory()
            service.ask_all(hot, setup.photos)
            memory[runtime] = sizes | {"hot users": service.memory()}
    other = list(memory)[-1]
    share = {when: round(one["Rss"] / memory[other][when]["Rss"], 3) for when, one in memory["onnx"].items()}
    return {
        "few": CLIENTS,
        "hot": len(hot),
        "MB": memory,
        "other": other,
        "share of the other": share,
        "user": user_memory(setup),
    }


def latency(setup: Setup) -> dict[str, Any]:
    """Measure requests one at a time, alternating between cached users and others, then those of many clients."""
    with Service(setup.users) as service:
        connection = HTTPConnection(service.address)
        count = len(setup.users.ids)
        warm_users = range(min(WARM, count // 2))
        for user in warm_users:
            service.ask(connection, user, setup.photos[0])
        warm, cold = [], []
        deadline = time.monotonic() + setup.seconds
        for user in range(len(warm_users), min(count, COLD)):
            photo = setup.photos[user % len(setup.photos)]
            cold.append(service.ask(connection, user, photo))
            warm.append(service.ask(connection, user % len(warm_users), photo))
            if time.monotonic() > deadline:
                break
        connection.close()
        times, spent = send_load(service, setup, count, setup.seconds)
    return {
        "requests": len(warm),
        "warm": percentiles(warm),
        "cold": percentiles(cold),
        "load": {
            "clients": CLIENTS,
            "requests": len(times),
            "requests a second": round(len(times) / spent, 1),
            **percentiles(times),
        },
    }


def send_load(service: Service, setup: Setup, active: int, seconds: float) -> tuple[list[float], float]:
    """Send requests of many clients, each of one of the first ``active`` users; return their seconds, and all seconds."""
    start = time.monotonic()
    times: list[float] = []
    lock = threading.Lock()

    def client(number: int) -> None:
        connection, generator = HTTPConnection(service.address), random.Random(number)
        while time.monotonic() < start + seconds:
            spent = service.ask(connection, generator.randrange(active), generator.choice(setup.photos))
            with lock:
                times.append(spent)
        connection.close()

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(client, range(CLIENTS)))
    return times, time.monotonic() - start


def active(setup: Setup) -> dict[str, Any]:
    """Measure requests a second against the number of active users, with a cache that holds 500 of them."""
    counts = sorted({min(count, len(setup.users.ids)) for count in ACTIVE})
    cache_mb = math.ceil(CACHED * user_memory(setup)["counted"] / MB)
    speeds: dict[int, list[float]] = {count: [] for count in counts}
    with Service(setup.users, cache_mb=cache_mb) as service:
        service.ask_all(range(min(CACHED, len(setup.users.ids))), setup.photos)
        for _ in range(TURNS):
            for count in counts:
                service.ask_all(range(min(count, CACHED)), setup.photos)
                times, spent = send_load(service, setup, count, setup.seconds / TURNS)
                speeds[count].append(len(times) / spent)
    medians = {count: round(statistics.median(values), 1) for count, values in speeds.items()}
    return {
        "clients": CLIENTS,
        "cached": CACHED,
        "cache MB": cache_mb,
        "requests a second": medians,
        "loss": round(
            max(medians[few] / medians[many] for few in counts for many in counts if few <= many), 3
        ),
    }
