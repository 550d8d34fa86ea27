"""What serving_engines.py calls in the process of an engine: the engine, and the measurements of it."""

from __future__ import annotations

import gc
import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Literal

import numpy as np

from filmtransfer.data.images import Label
from filmtransfer.model import Update
from filmtransfer.predictor import Predictor
from filmtransfer.processes import usable_cores
from filmtransfer.runtime import FeatureSession, GraphKey, find, open_session
from filmtransfer.runtime.extractor import GraphExtractor, find_extractor, graph_key
from filmtransfer.serve.engine.batcher import Batcher
from filmtransfer.serve.engine.cache import Cache
from filmtransfer.serve.engine.multi_user import Engine, Member
from filmtransfer.serve.store import ProjectId, Store
from serving_setup import Setup
from serving_users import BACKBONE, Users

HOT, CLIENTS = 256, 32  # users in memory; threads that send requests
CACHE_MB = 100  # for the concurrent requests: less than their users need

Request = tuple[int, int]  # the indices of a user and of a photo
Probabilities = dict[Label, float]


@dataclass(frozen=True)
class State:
    """What the process keeps between the calls."""

    runtime: str
    engine: Engine
    store: Store
    setup: Setup
    squares: np.ndarray  # the photos as uint8 (N, 3, S, S)
    hot: list[Member]


STATE: State


def open_engine(runtime: Literal["onnx", "torch"], setup: Setup) -> None:
    """Open the engine, as the process begins."""
    global STATE
    if runtime == "torch":
        from filmtransfer.training.torch_settings import configure_process

        configure_process(1)
    engine, store = Engine.open(BACKBONE, runtime=runtime), setup.users.open()
    squares = np.stack([engine.pixels(photo) for photo in setup.photos])
    chosen = random.Random(0).sample(setup.users.ids, min(HOT, len(setup.users.ids)))
    hot = [engine.member(store.versions.content(user, 1)) for user in chosen]
    STATE = State(runtime, engine, store, setup, squares, hot)


def _turn(turn: int, images: int) -> tuple[list[Member], np.ndarray]:
    """Return the members and the pixels of a turn; every turn has other users."""
    members = [STATE.hot[(turn * images + i) % len(STATE.hot)] for i in range(images)]
    return members, STATE.squares[[i % len(STATE.squares) for i in range(images)]]


def answer(turn: int, images: int, batch: int, threads: int) -> float:
    """Return the seconds of ``Engine.answers`` for the images, ``batch`` of them in a call; ``threads`` are torch's."""
    members, pixels = _turn(turn, images)
    _set_threads(threads)
    start = time.perf_counter()
    for begin in range(0, images, batch):
        STATE.engine.answers(members[begin : begin + batch], pixels[begin : begin + batch])
    return time.perf_counter() - start


def _set_threads(threads: int) -> None:
    """Set the threads of torch; onnxruntime's are those that call it."""
    if STATE.runtime == "torch":
        import torch

        torch.set_num_threads(threads)


def serve(turn: int, images: int, batch: int | None = None, passes_at_once: int | None = None) -> float:
    """Return the seconds of a batcher for the images; without arguments its plan is that of the service."""
    members, pixels = _turn(turn, images)
    _set_threads(usable_cores())
    batcher = Batcher(STATE.engine, batch, passes_at_once=passes_at_once, waiting=images)
    start = time.perf_counter()
    futures = [batcher.submit(member, square) for member, square in zip(members, pixels, strict=True)]
    for future in futures:
        future.result()
    seconds = time.perf_counter() - start
    batcher.close()
    return seconds


def image_size() -> int:
    """Return the side of the images in pixels."""
    return STATE.engine.spec.size


def film_costs(rounds: int) -> dict[str, Any]:
    """Return the seconds an image of each way to compute it, on one thread."""
    engine, contents = STATE.engine, [STATE.store.versions.content(u, 1) for u in STATE.setup.users.ids[:HOT]]
    folded = open_session(STATE.setup.folded.read_bytes(), 1)

    def per_sample(turn: int, images: int) -> None:
        members, pixels = _turn(turn, images)
        rows = [member.film for member in members]
        engine.source.features(pixels, engine.spec, members[0].group, rows)

    def without_film(turn: int, images: int) -> None:
        for square in _turn(turn, images)[1]:
            folded.run(["features"], {"pixels": square[None]})

    def from_store(turn: int, images: int) -> None:
        for i, square in enumerate(_turn(turn, images)[1]):
            engine.answers([engine.member(contents[(turn * images + i) % len(contents)])], [square])

    def model_each(turn: int, images: int) -> None:
        for i, square in enumerate(_turn(turn, images)[1]):
            update = Update.from_bytes(contents[(turn * images + i) % len(contents)])
            predictor = Predictor(update, find_extractor(update, "onnx", threads=1))
            _probabilities(predictor, square)

    ways: dict[str, tuple[Callable[[int, int], object], int]] = {
        "per image": (per_sample, 32),
        "folded": (without_film, 32),
        "answers": (lambda turn, images: answer(turn, images, 1, 1), 32),
        "member each": (from_store, 8),
        "model each": (model_each, 4),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name, (run, images) in ways.items():
            start = time.perf_counter()
            run(turn, images)
            if turn:
                seconds[name].append((time.perf_counter() - start) / images)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    pairs = zip(seconds["folded"], seconds["per image"], strict=True)
    return {
        "ms": {name: round(1000 * value, 2) for name, value in medians.items()},
        "of folded": round(statistics.median(plain / rows for plain, rows in pairs), 3),
        "model each": round(medians["model each"] / medians["answers"], 3),
        "member each": round(medians["member each"] / medians["answers"], 3),
    }


def send_requests(requests: Sequence[Request], returned: int) -> tuple[dict[str, Any], list[Probabilities]]:
    """Send all requests at once through cache and batcher; return the comparison with single predictions.

    Also returned are the answers to the first ``returned`` requests.
    """
    engine, ids = STATE.engine, STATE.setup.users.ids
    batcher, members = Batcher(engine, waiting=4 * CLIENTS), Cache(CACHE_MB)

    def ask(request: Request) -> Probabilities:
        user, image = request
        project = ids[user]
        member = members.get((project, project, 1), partial(_load_member, project))
        return dict(batcher.submit(member, STATE.squares[image]).result().classes)

    start = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        answers = list(pool.map(ask, requests))
    seconds = time.perf_counter() - start
    batcher.close()
    wrong, largest = 0, 0.0
    for request, received in zip(requests, answers, strict=True):
        expected = _predict_alone(request)
        if received.keys() != expected.keys() or not _is_of_user(received, request[0]):
            wrong += 1
        else:
            largest = max(largest, *(abs(received[name] - p) for name, p in expected.items()))
    result = {
        "requests": len(requests), "threads": CLIENTS, "wrong": wrong, "largest difference": largest,
        "images a pass": round(batcher.images / batcher.passes, 1), "cache misses": members.misses,
        "requests a second": round(len(requests) / seconds, 1),
    }  # fmt: skip
    return result, answers[:returned]


def _load_member(project: ProjectId) -> Member:
    return STATE.engine.member(STATE.store.versions.content(project, 1))


def single_answers(requests: Sequence[Request]) -> list[Probabilities]:
    """Answer the requests one by one."""
    answers = []
    for user, image in requests:
        member = _load_member(STATE.setup.users.ids[user])
        answers.append(dict(STATE.engine.answers([member], STATE.squares[[image]])[0].classes))
    return answers


def _predict_alone(request: Request) -> Probabilities:
    """Return the prediction of ``Predictor``, which knows one user only."""
    user, image = request
    update = Update.from_bytes(STATE.store.versions.content(STATE.setup.users.ids[user], 1))
    session = _open_session(graph_key(update))
    return _probabilities(Predictor(update, GraphExtractor(session, update)), STATE.squares[image])


@cache
def _open_session(key: GraphKey) -> FeatureSession:
    session = find(key, 1)
    assert session is not None, "the engine has made the graph"
    return session


def _probabilities(predictor: Predictor, square: np.ndarray) -> Probabilities:
    features = predictor._extractor().extract(square[None])
    (row,) = predictor.predictor_.predict(features).probabilities.tolist()
    return dict(zip(predictor.update_.classes, row, strict=True))


def _is_of_user(answer: Probabilities, user: int) -> bool:
    return all(str(name).endswith(f" of {user}") for name in answer)


def load_users(users: Users, ids: Sequence[ProjectId]) -> list[float]:
    """Return the seconds to read each user's update from the store and to make a member of it."""
    store, seconds = users.open(), []
    store.versions.current(ids[0])  # connects to the database
    for project in ids:
        start = time.perf_counter()
        STATE.engine.member(store.versions.content(project, 1))
        seconds.append(time.perf_counter() - start)
    store.close()
    return seconds


def update_sizes() -> dict[str, int]:
    """Return the bytes of a stored update with its support features and without them."""
    content = STATE.store.versions.content(STATE.setup.users.ids[0], 1)
    plain = replace(Update.from_bytes(content), support=None)
    return {"with support": len(content), "without support": len(plain.to_bytes())}


def member_growth(count: int) -> dict[str, Any]:
    """Return the growth of this process per user in the cache, and the sizes of an update."""
    members, ids = Cache(1e6), STATE.setup.users.ids

    def load(chosen: Sequence[ProjectId]) -> None:
        for project in chosen:
            members.get((project, project, 1), partial(_load_member, project))
        gc.collect()

    first = min(100, len(ids) // 2)
    load(ids[:first])
    before, cached, chosen = resident_bytes(), members.nbytes, ids[first : first + count]
    load(chosen)
    grown, sizes = (resident_bytes() - before) / len(chosen), update_sizes()
    return {
        "users": len(chosen),
        "bytes a user": round(grown),
        "counted": round((members.nbytes - cached) / len(chosen)),
        "update": sizes["without support"],
        "stored": sizes["with support"],
        "ratio": round(grown / sizes["without support"], 3),
    }


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
