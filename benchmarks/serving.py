"""Thousands of users on one backbone: multi-user batches against alternatives, latency, memory and correctness.

    python benchmarks/serving.py --data ../shared/data --users 10000

Writes benchmarks/results/serving.json and serving.md. The alternatives run in turn several times, the medians are
reported, and throughput is measured in processor time of one thread, because other programs may use the machine.
``--keep FOLDER`` stores the users, whose creation takes minutes, for the next run.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from http.client import HTTPConnection
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import numpy as np
import torch
from torch import Tensor

from filmtransfer import film
from filmtransfer.backbones import Backbone, load_backbone
from filmtransfer.backbones.frozen import fold_frozen_norms
from filmtransfer.data.images import Label
from filmtransfer.model import Update
from filmtransfer.model.body import load_parameters, share_weights
from filmtransfer.serve.engine.batcher import Batcher
from filmtransfer.serve.engine.cache import Cache
from filmtransfer.serve.engine.multi_user import Engine, Member
from filmtransfer.serve.store import StoreLocation
from filmtransfer.training.torch_settings import configure_process
from serving_page import write_page
from serving_users import Users, make_users, photos

FILE = Path(__file__).parent / "results" / "serving.json"
BACKBONE = "efficientnet_lite0"
BATCH, ROUNDS, THREADS, CLIENTS, SMALL = 32, 5, 32, 16, 64
REQUESTS, SENDERS = 10_000, 2_000  # requests, and the number of users who send them


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--data", type=Path, help="image sets for training and requests; else drawings")
    options.add_argument("--users", type=int, default=10_000)
    options.add_argument("--seconds", type=float, default=60, help="of each measurement over HTTP")
    options.add_argument("--keep", type=Path, help="where the users are stored for the next run")
    options.add_argument("--part", choices=PARTS, nargs="+", default=list(PARTS))
    args = options.parse_args()
    configure_process(1)
    with tempfile.TemporaryDirectory() as scratch:
        users = make_users(args.keep or Path(scratch, "users"), args.users, args.data, log)
        images = photos(args.data, 64)
        for part in args.part:
            load_before = os.getloadavg()[0]
            result = run_in_process(PARTS[part], users, images, args.seconds)
            save(part, result | {"machine load": round(load_before, 1)}, args)
    write_page(FILE, PARTS)


def run_in_process(run: Part, *arguments: Any) -> dict[str, Any]:
    """Run a part in a new process, so that it does not inherit the memory of another."""
    with ProcessPoolExecutor(1, get_context("spawn"), initializer=configure_process, initargs=(1,)) as pool:
        return pool.submit(run, *arguments).result()


def save(part: str, result: dict[str, Any], args: argparse.Namespace) -> None:
    """Add a part to the results file, which may have parts of earlier runs."""
    log(f"{part} {json.dumps(result)}")
    FILE.parent.mkdir(exist_ok=True)
    results = json.loads(FILE.read_text()) if FILE.exists() else {}
    results |= {
        "command": f"python benchmarks/serving.py {'--data DIR ' if args.data else ''}--users {args.users}"
        f" --seconds {args.seconds:g}" + ("" if args.part == list(PARTS) else " --part …"),
        "machine": {"cores": len(os.sched_getaffinity(0)), "torch": torch.__version__},
        "users": args.users,
        "backbone": BACKBONE,
        part: result,
    }
    FILE.write_text(json.dumps(results, indent=1) + "\n")


def log(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


# (a), (b): throughput


class SingleUserModel:
    """One model into which the updates are loaded one after the other."""

    def __init__(self, backbone: Backbone, first: bytes, size: int | None = None) -> None:
        update = Update.from_bytes(first)
        self.size = size or update.pixels.size
        self.model = replace(update, pixels=replace(update.pixels, size=self.size)).apply(backbone)

    @torch.no_grad()
    def __call__(self, content: bytes, pixels: Tensor) -> list[dict[str, float]]:
        update = Update.from_bytes(content)
        load_parameters(self.model.network, update.parameters)
        predictor = update.predictor(update.restore_head(torch.empty(0)))
        rows = predictor.predict(self.model.features(pixels)).probabilities.tolist()
        return [dict(zip(map(str, update.classes), row, strict=True)) for row in rows]


def throughput(users: Users, images: list[bytes], _: float) -> dict[str, Any]:
    """Measure the processor time per image in ms for each alternative; every image is another user's."""
    backbone = load_backbone(BACKBONE)
    engine, store = Engine(backbone), users.open()
    chosen = random.Random(0).sample(range(len(users.ids)), min(8 * BATCH, len(users.ids)))
    contents = [store.versions.content(users.ids[i], 1) for i in chosen]
    store.close()
    members = [engine.member(content) for content in contents]
    arrays = np.stack([engine.pixels(photo) for photo in images])
    squares = torch.from_numpy(arrays)
    single = SingleUserModel(backbone, contents[0])
    plain = backbone.module
    folded = copy.deepcopy(plain)
    fold_frozen_norms(folded, [], 64)
    filmed = film.attach(share_weights(plain), backbone.sites)
    bodies = [Update.from_bytes(content).parameters for content in contents[:BATCH]]
    batch = squares[:BATCH].float().div(127.5).sub(1).contiguous(memory_format=torch.channels_last)

    def multi_user(turn: int) -> None:
        chosen = [(turn * BATCH + i) % len(members) for i in range(BATCH)]
        engine.answers([members[i] for i in chosen], arrays[:BATCH])

    def one_by_one(turn: int) -> None:
        for i in range(8):
            engine.answers([members[(8 * turn + i) % len(members)]], arrays[i : i + 1])

    def load_in_turn(turn: int) -> None:
        for i in range(8):
            single(contents[(8 * turn + i) % len(contents)], squares[i : i + 1])

    def load_model(turn: int) -> None:
        for i in range(2):
            model = Update.from_bytes(contents[(2 * turn + i) % len(contents)]).apply(
                load_backbone(backbone.name)
            )
            model.logits(squares[i : i + 1])

    def per_sample(_: int) -> None:
        with film.per_sample(filmed, bodies):
            filmed(batch)

    alternatives: dict[str, tuple[Callable[[int], Any], int]] = {
        "mixed": (multi_user, BATCH),
        "plain": (lambda _: plain(batch), BATCH),
        "rows": (lambda _: engine._features(arrays[:BATCH], engine.spec, [m.film for m in members[:BATCH]]), BATCH),
        "film layers": (per_sample, BATCH),
        "folded": (lambda _: folded(batch), BATCH),
        "one by one": (one_by_one, 8),
        "in turn": (load_in_turn, 8),
        "a model each": (load_model, 2),
    }  # fmt: skip
    times: dict[str, list[float]] = {name: [] for name in alternatives}
    with torch.no_grad():
        for turn in range(ROUNDS + 1):  # the first one is for warming up
            for name, (run, count) in alternatives.items():
                start = time.process_time()
                run(turn)
                if turn:
                    times[name].append((time.process_time() - start) / count * 1000)
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {
        "ms": {name: round(value, 3) for name, value in medians.items()},
        "all": {name: [round(value, 2) for value in values] for name, values in times.items()},
        "batch": BATCH,
        "size": engine.spec.size,
        "ahead": {
            name: round(medians[name] / medians["mixed"], 3)
            for name in ("one by one", "in turn", "a model each")
        },
        "of plain": round(
            statistics.median(p / r for p, r in zip(times["plain"], times["rows"], strict=True)), 3
        ),
        "of folded": round(
            statistics.median(p / r for p, r in zip(times["folded"], times["rows"], strict=True)), 3
        ),
    }


# (d): memory


def memory(users: Users, _images: list[bytes], _seconds: float) -> dict[str, Any]:
    """Measure the growth of the process per cached user, and the size of an update without statistics."""
    engine, store, cache = Engine(load_backbone(BACKBONE)), users.open(), Cache(1e6)

    def load_members(chosen: list[str]) -> list[Member]:
        return [cache.get((u, 1), lambda u=u: engine.member(store.versions.content(u, 1))) for u in chosen]  # type: ignore[misc]

    load_members(users.ids[:100])
    gc.collect()
    before, cached = resident(), cache.nbytes
    chosen = users.ids[100 : 100 + SENDERS]
    load_members(chosen)
    gc.collect()
    grown = (resident() - before) / len(chosen)
    update = Update.from_bytes(store.versions.content(chosen[0], 1))
    stored, plain = len(update.to_bytes()), len(replace(update, support=None).to_bytes())
    store.close()
    return {
        "users": len(chosen),
        "bytes a user": round(grown),
        "counted": round((cache.nbytes - cached) / len(chosen)),
        "update": plain,
        "stored": stored,
        "ratio": round(grown / plain, 3),
    }


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


# (e): correctness


def correctness(users: Users, images: list[bytes], _: float) -> dict[str, Any]:
    """Send requests of many threads through cache and batcher, and compare with the single-user model."""
    backbone = load_backbone(BACKBONE)
    engine, store = Engine(backbone, SMALL), users.open()
    batcher, cache = Batcher(engine, waiting=4 * THREADS), Cache(SENDERS / 20)
    squares = np.stack([engine.pixels(photo) for photo in images])
    chosen = random.Random(1).sample(range(len(users.ids)), min(SENDERS, len(users.ids)))
    requests = [(chosen[i % len(chosen)], i % len(squares)) for i in range(REQUESTS)]
    random.Random(2).shuffle(requests)

    def load_member(user: int) -> Member:
        member = engine.member(store.versions.content(users.ids[user], 1))
        return replace(member, spec=engine.spec)  # small images, to save time

    def ask(request: tuple[int, int]) -> list[tuple[Label, float]]:
        user, image = request
        member = cache.get((users.ids[user], 1), lambda: load_member(user))
        return batcher.submit(member, squares[image]).result().classes

    start = time.monotonic()
    with ThreadPoolExecutor(THREADS) as pool:
        answers = list(zip(requests, pool.map(ask, requests), strict=True))
    seconds = time.monotonic() - start
    batcher.close()
    log("all requests sent; now with a single-user model")
    single, wrong, largest = SingleUserModel(backbone, store.versions.content(users.ids[0], 1), SMALL), 0, 0.0
    by_user: dict[int, list[tuple[int, list[tuple[Label, float]]]]] = {}
    for (user, image), answer in answers:
        by_user.setdefault(user, []).append((image, answer))
    for user, received in by_user.items():
        expected = single(
            store.versions.content(users.ids[user], 1),
            torch.from_numpy(squares[[image for image, _ in received]]),
        )
        for (_, answer), truth in zip(received, expected, strict=True):
            if dict(answer).keys() != truth.keys() or not str(answer[0][0]).endswith(f" of {user}"):
                wrong += 1
            else:
                largest = max(largest, *(abs(p - truth[str(name)]) for name, p in answer))
    store.close()
    return {
        "requests": len(answers), "users": len(chosen), "threads": THREADS, "wrong": wrong,
        "largest difference": largest, "images a pass": round(batcher.images / batcher.passes, 1),
        "size": SMALL, "requests a second": round(len(answers) / seconds, 1),
    }  # fmt: skip


# (c), (f): over HTTP


class Service:
    """``fit serve`` on the users' store, as a process."""

    def __init__(self, users: Users, scratch: str) -> None:
        self.users = users
        location = StoreLocation.of(users.folder)
        arguments = (
            f"serve {scratch}/service --workers 0 --port 0 --json --threads 1 --rate 9999999 --cache-mb 4000"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-m", "filmtransfer", *arguments.split(), "--database", location.database, "--objects", str(location.objects)],
            stdout=subprocess.PIPE, text=True,
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


def over_http(users: Users, images: list[bytes], seconds: float) -> dict[str, Any]:
    """Measure latency and load over HTTP."""
    with tempfile.TemporaryDirectory() as scratch, Service(users, scratch) as service:
        return {"latency": latency(service, images, seconds), "load": load(service, images, seconds)}


def latency(service: Service, images: list[bytes], seconds: float) -> dict[str, Any]:
    """Send one request at a time, alternating between cached users and others."""
    connection = HTTPConnection(service.address)
    warm_users = range(50)
    for user in warm_users:
        service.ask(connection, user, images[0])
    warm, cold = [], []
    deadline = time.monotonic() + seconds
    for user in range(50, min(len(service.users.ids), 2050)):
        photo = images[user % len(images)]
        cold.append(service.ask(connection, user, photo))
        warm.append(service.ask(connection, user % 50, photo))
        if time.monotonic() > deadline:
            break
    return {"requests": len(warm), "warm": percentiles(warm), "cold": percentiles(cold)}


def percentiles(seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=100)
    return {f"p{p}": round(1000 * cuts[p - 1], 2) for p in (50, 90, 99)}


def load(service: Service, images: list[bytes], seconds: float) -> dict[str, Any]:
    """Send requests of many clients at once, each of another user."""
    deadline, times, lock = time.monotonic() + seconds, [], threading.Lock()

    def client(number: int) -> None:
        connection, generator = HTTPConnection(service.address), random.Random(number)
        while time.monotonic() < deadline:
            spent = service.ask(
                connection, generator.randrange(len(service.users.ids)), generator.choice(images)
            )
            with lock:
                times.append(spent)

    start = time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(client, range(CLIENTS)))
    spent = time.monotonic() - start
    return {
        "clients": CLIENTS,
        "requests": len(times),
        "requests a second": round(len(times) / spent, 1),
        **percentiles(times),
    }


def loading(users: Users, _images: list[bytes], _seconds: float) -> dict[str, Any]:
    """Measure how long it takes to read an update and make a member of it."""
    engine, store = Engine(load_backbone(BACKBONE)), users.open()
    wall, processor = [], []
    for user in users.ids[-500:]:
        start, processor_start = time.perf_counter(), time.process_time()
        engine.member(store.versions.content(user, 1))
        wall.append(time.perf_counter() - start)
        processor.append(time.process_time() - processor_start)
    store.close()
    return {"wall": percentiles(wall), "processor": percentiles(processor)}


Part = Callable[[Users, list[bytes], float], dict[str, Any]]
PARTS: dict[str, Part] = {
    "throughput": throughput,
    "memory": memory,
    "right": correctness,
    "http": over_http,
    "loading": loading,
}


if __name__ == "__main__":
    main()
