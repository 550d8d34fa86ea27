"""The service under more requests than it can serve: goodput, fairness between users, and whether cheap requests respond.

    python benchmarks/overload.py --data ../shared/data

Writes benchmarks/results/overload.json and overload.md. One ``fit serve`` process on loopback; the client is another process
on the same machine, which has a core of its own. Capacity is measured with clients that wait for each response, overload with requests at twice that
rate, whatever the responses (open loop), in turns within one run, so that the ratio does not depend on the machine. Every
prediction is checked to be that of its user. The machine should be idle otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from PIL import Image

from filmtransfer.files import CACHE_VARIABLE
from serving_http import Service
from serving_setup import percentiles
from serving_users import Users, make_users, photos

FILE = Path(__file__).parent / "results" / "overload.json"
USERS = 24  # of the phases capacity and overload
CLIENTS = 16  # of the phase capacity
SMALL = 4  # users with one request at a time, beside one with all the others
AT_ONCE = 1_000  # connections
PROBE_SECONDS = 0.1  # between two requests for /healthz
PATIENCE = 60.0  # seconds until a client gives up
FILL_SECONDS = 15.0  # of overload, until the line of waiting requests is full
KEEP_SECONDS = 4.0  # in which a client uses a connection again; the service closes it after 5
ATTACKING = 8  # connections of a user who attacks: as many turns as one user may hold
SIDE = 9990  # of the image that takes longest to decode: 16 bits, within 100 megapixels
SLOW_BYTES = 10_000  # of a slow body, every half second

Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Result:
    """The responses of one phase."""

    seconds: float = 0.0
    processor: float = 0.0  # seconds of the service
    served: dict[int, list[float]] = field(default_factory=dict)  # seconds of each prediction, by user
    statuses: Counter[str] = field(default_factory=Counter)
    retry: list[int] = field(default_factory=list)  # the values of Retry-After
    health: list[float] = field(default_factory=list)
    counts: bool = True  # whether responses count yet

    def times(self) -> list[float]:
        """Return the seconds of all predictions."""
        return [one for times in self.served.values() for one in times]

    def rate(self) -> float:
        """Return predictions a second."""
        return len(self.times()) / self.seconds

    def describe(self) -> dict[str, Any]:
        """Return the figures of the phase."""
        counts = [len(times) for times in self.served.values()]
        return {
            "seconds": round(self.seconds, 1),
            "predictions a second": round(self.rate(), 1),
            "processor ms a prediction": round(1000 * self.processor / max(len(self.times()), 1), 1),
            "statuses": dict(sorted(self.statuses.items())),
            "predictions of a user": sorted(counts),
            **({"prediction": percentiles(self.times())} if len(self.times()) > 1 else {}),
            **({"healthz": percentiles(self.health)} if len(self.health) > 1 else {}),
            **({"Retry-After": [min(self.retry), max(self.retry)]} if self.retry else {}),
        }


class Client:
    """Sends requests to a service."""

    def __init__(self, service: Service, users: Users, pictures: list[bytes]) -> None:
        self.process = service.process
        self.url = urlparse(f"http://{service.address}")
        self.users = users
        self.pictures = pictures
        self.free: list[tuple[float, Line]] = []  # connections without a request, and since when

    def reused(self) -> Line | None:
        """Return a connection that another request has left open, as HTTP clients do."""
        while self.free:
            since, line = self.free.pop()
            if time.monotonic() - since < KEEP_SECONDS and not line[0].at_eof():
                return line
            line[1].close()
        return None

    async def connect(self) -> Line:
        """Return a new connection."""
        return await asyncio.open_connection(self.url.hostname, self.url.port)

    async def ask(self, user: int, result: Result, line: Line | None = None) -> None:
        """Request one prediction, on this connection, one that is free, or a new one."""
        start, again = time.perf_counter(), False
        line = line or self.reused()
        try:
            async with asyncio.timeout(PATIENCE):
                line = line or await self.connect()
                status, headers, body = await self.exchange(line, self.prediction(user))
            again = headers.get("connection") != "close"
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            result.statuses[type(error).__name__] += 1
            return
        finally:
            if again and line is not None:
                self.free.append((time.monotonic(), line))
            elif line is not None:
                line[1].close()
        if not result.counts:
            return
        result.statuses[str(status)] += 1
        if status == 200:
            answer = json.loads(body)
            assert all(one["class"].endswith(f" of {user}") for one in answer["probabilities"]), answer
            result.served.setdefault(user, []).append(time.perf_counter() - start)
        elif status in (429, 503):
            result.retry.append(int(headers["retry-after"]))

    def prediction(self, user: int, photo: bytes = b"") -> bytes:
        """Return the request for a prediction."""
        photo = photo or random.choice(self.pictures)
        head = (
            f"POST /api/predictions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.users.tokens[user]}\r\n"
            f"Content-Type: image/jpeg\r\nContent-Length: {len(photo)}\r\n\r\n"
        )
        return head.encode() + photo

    async def exchange(self, line: Line, request: bytes) -> tuple[int, dict[str, str], bytes]:
        """Send a request and return status, headers and body of the response."""
        reader, writer = line
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (one.partition(": ") for one in head[1:])}
        return int(head[0].split()[1]), headers, await reader.readexactly(int(headers["content-length"]))

    async def probe(self, result: Result) -> None:
        """Request /healthz, again and again, until cancelled."""
        while True:
            start = time.perf_counter()
            line = await self.connect()
            status, _, _ = await self.exchange(line, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            line[1].close()
            assert status == 200, status
            result.health.append(time.perf_counter() - start)
            await asyncio.sleep(PROBE_SECONDS)

    async def measured(self, result: Result, load: Awaitable[None]) -> Result:
        """Run a load with probes."""
        start, processor = time.monotonic(), self.processor_seconds()
        probe = asyncio.create_task(self.probe(result))
        try:
            await load
        finally:
            result.seconds += time.monotonic() - start
            result.processor += self.processor_seconds() - processor
            probe.cancel()
        return result

    def processor_seconds(self) -> float:
        """Return the processor time of the service so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def closed(self, result: Result, users: list[int], seconds: float) -> None:
        """One client for each of the users: the next request follows the response."""
        end = time.monotonic() + seconds

        async def client(user: int) -> None:
            while time.monotonic() < end:
                await self.ask(user, result)

        await asyncio.gather(*map(client, users))

    async def open(self, result: Result, users: list[int], rate: float, seconds: float) -> None:
        """Requests at a rate, each of the next user, whatever the responses; the responses after the end do not count."""
        tasks: list[asyncio.Task[None]] = []
        start = time.monotonic()
        while (now := time.monotonic() - start) < seconds:
            while len(tasks) < now * rate:
                tasks.append(asyncio.create_task(self.ask(users[len(tasks) % len(users)], result)))
            await asyncio.sleep(0.005)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def expensive(self, user: int, photo: bytes) -> None:
        """Request predictions for an image that takes seconds to decode, again and again, until cancelled."""
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                line = await self.connect()
                await self.exchange(line, self.prediction(user, photo))
                line[1].close()
            await asyncio.sleep(0.1)

    async def slow(self, user: int) -> None:
        """Send a large body slowly, again and again, until cancelled."""
        while True:
            with suppress(OSError):
                reader, writer = await self.connect()
                writer.write(self.prediction(user, bytes(19_000_000))[:SLOW_BYTES])
                response = asyncio.create_task(reader.read(1))
                while not (await asyncio.wait([response], timeout=0.5))[0]:
                    writer.write(bytes(SLOW_BYTES))
                writer.close()
            await asyncio.sleep(0.1)

    async def beside(self, result: Result, attacks: list[Coroutine[Any, Any, None]], seconds: float) -> None:
        """One client of another user, who sends the next request after the response, beside attacks."""
        tasks = [asyncio.create_task(attack) for attack in attacks]
        await asyncio.sleep(2)
        await self.measured(result, self.closed(result, [USERS - 1], seconds))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(1)

    async def at_once(self, result: Result, users: list[int], count: int) -> None:
        """All connections are made before the first request is sent."""
        lines = await asyncio.gather(*(self.connect() for _ in range(count)))
        await asyncio.gather(*(self.ask(users[i % len(users)], result, line) for i, line in enumerate(lines)))


async def measure(client: Client, seconds: float, rounds: int, at_once: int) -> dict[str, Any]:
    """Return the figures of all phases."""
    users = list(range(USERS))
    await client.closed(Result(), users, seconds / 4)  # warm
    capacity, overload, flood = Result(), Result(), Result()
    ratios: list[float] = []
    for _ in range(rounds):
        before, during = Result(), Result()
        await client.measured(before, client.closed(before, users[:CLIENTS], seconds))
        rate = 2 * before.rate()
        during.counts = False
        load = asyncio.create_task(client.open(during, users, rate, FILL_SECONDS + seconds))
        await asyncio.sleep(FILL_SECONDS)
        during.counts = True
        await client.measured(during, load)
        ratios.append(during.rate() / before.rate())
        for total, one in ((capacity, before), (overload, during)):
            add(total, one)
        log(f"{before.rate():.1f} predictions a second, {during.rate():.1f} under twice the load")
        await asyncio.sleep(max(during.retry, default=1))  # until nobody is refused any more
    small = users[1 : SMALL + 1]

    async def flooded() -> None:
        await asyncio.gather(
            client.open(flood, users[:1], 2 * capacity.rate(), seconds), client.closed(flood, small, seconds)
        )

    await client.measured(flood, flooded())
    await asyncio.sleep(max(flood.retry, default=1))
    crowd = Result()
    await client.measured(crowd, client.at_once(crowd, users, at_once))
    alone, expensive, slow = Result(), Result(), Result()
    photo = expensive_photo()
    await client.beside(alone, [], seconds)
    await client.beside(expensive, [client.expensive(0, photo) for _ in range(ATTACKING)], seconds)
    await client.beside(slow, [client.slow(user) for user in (0, 1) for _ in range(ATTACKING)], seconds)
    mine = [one for user in small for one in flood.served.get(user, [])]
    return {
        "goodput at twice the capacity": round(statistics.median(ratios), 3),
        "ratios": [round(one, 3) for one in ratios],
        "capacity": capacity.describe(),
        "overload": overload.describe(),
        "one user floods": flood.describe()
        | {
            "flooding user": len(flood.served.get(0, [])),
            "small users": [len(flood.served.get(user, [])) for user in small],
            "small users, prediction": percentiles(mine) if len(mine) > 1 else None,
        },
        "at once": crowd.describe() | {"connections": at_once},
        "alone": alone.describe(),
        "expensive images": expensive.describe(),
        "slow bodies": slow.describe(),
    }


def expensive_photo() -> bytes:
    """Return a small file that takes seconds to decode."""
    Image.MAX_IMAGE_PIXELS = None
    out = BytesIO()
    Image.new("I;16", (SIDE, SIDE), 1).save(out, "PNG", compress_level=1)
    return out.getvalue()


def add(total: Result, one: Result) -> None:
    """Add the responses of one round."""
    total.seconds += one.seconds
    total.processor += one.processor
    total.statuses += one.statuses
    total.retry += one.retry
    total.health += one.health
    for user, times in one.served.items():
        total.served.setdefault(user, []).extend(times)


def page(results: dict[str, Any]) -> str:
    """Return the page in Markdown."""
    machine, flood = results["machine"], results["one user floods"]
    phases = {
        f"capacity: {CLIENTS} clients, each waits for its response": results["capacity"],
        f"overload: twice as many requests, of {USERS} users": results["overload"],
        f"one user sends twice the capacity, {SMALL} users one request at a time": flood,
        f"{results['at once']['connections']} connections at once": results["at once"],
        "one user, one request at a time": results["alone"],
        f"the same, beside {ATTACKING} connections of one user with images that take seconds to decode": results[
            "expensive images"
        ],
        f"the same, beside {ATTACKING} connections each of two users with bodies of {SLOW_BYTES // 500} kB/s": results[
            "slow bodies"
        ],
    }
    lines = [
        f"Goodput at twice the capacity: **{100 * results['goodput at twice the capacity']:.0f}%** of that at capacity "
        f"(rounds: {', '.join(f'{100 * one:.0f}%' for one in results['ratios'])}). The service has {machine['cores']} of "
        f"{machine['cores'] + 1} cores, the client the other one; load average {machine['load']:.1f} at the start; made by `{results['command']}`.",
        "",
        "| phase | predictions a second | processor ms of one | least and most of a user | p50, p99 ms | `/healthz` p50, p99 ms | responses |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, phase in phases.items():
        both = [
            f"{phase[kind]['p50']:.0f}, {phase[kind]['p99']:.0f}" if kind in phase else ""
            for kind in ("prediction", "healthz")
        ]
        least, *_, most = 2 * phase["predictions of a user"]
        statuses = ", ".join(f"{count} × {status}" for status, count in phase["statuses"].items())
        lines.append(
            f"| {name} | {phase['predictions a second']} | {phase['processor ms a prediction']} | {least}, {most} | {both[0]} | {both[1]} | {statuses} |"
        )
    own = flood["small users, prediction"]
    lines += [
        "",
        f"While one user floods the service, each of the others gets {min(flood['small users'])} to {max(flood['small users'])} "
        f"predictions, and that user {flood['flooding user']}"
        + (f"; theirs take {own['p50']:.0f} ms (p50) and {own['p99']:.0f} ms (p99)." if own else "."),
    ]
    return "\n".join(lines) + "\n"


def log(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--data", type=Path, help="image sets for training and requests; else drawings")
    options.add_argument("--seconds", type=float, default=20, help="of each phase")
    options.add_argument("--rounds", type=int, default=3, help="of capacity and overload, in turns")
    options.add_argument("--at-once", type=int, default=AT_ONCE, help="connections of the last phase")
    options.add_argument("--keep", type=Path, help="where the users are stored for the next run")
    options.add_argument("--out", type=Path, default=FILE, help="the results, as JSON; a page beside it")
    args = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (args.keep or Path(scratch)).resolve()
        os.environ[CACHE_VARIABLE] = str(folder / "graphs")
        users = make_users(folder / "users", USERS, args.data, log)
        load = os.getloadavg()[0]
        *cores, last = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores)  # of the service; the client has the last one
        with Service(users) as service:
            os.sched_setaffinity(0, {last})
            client = Client(service, users, photos(args.data, 64))
            results = asyncio.run(measure(client, args.seconds, args.rounds, args.at_once))
    about = {
        "command": f"python benchmarks/overload.py {'--data DIR ' if args.data else ''}--seconds {args.seconds:g} "
        f"--rounds {args.rounds}",
        "machine": {"cores": len(cores), "load": load},
    }
    args.out.write_text(json.dumps(about | results, indent=1) + "\n")
    args.out.with_suffix(".md").write_text(page(about | results))
    print(page(about | results))


if __name__ == "__main__":
    main()
