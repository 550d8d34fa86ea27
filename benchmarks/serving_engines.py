"""The parts of serving.py without HTTP: speed of both engines, correctness, and loading of users.

Each engine is in a process of its own, as it is in a service: the process of onnxruntime does not import torch.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from types import TracebackType
from typing import Any, Literal, TypeVar

import serving_child as child
from filmtransfer.processes import usable_cores
from serving_setup import Setup, milliseconds, percentiles

IMAGES, SIZES = 32, (1, 2, 4, 8, 16, 32)  # images of a turn, each of another user; images of a pass
SENDERS, COMPARED = 2_000, 1_000  # users who send the requests; requests that torch repeats
LOADED, CHUNK = 300, 50  # users who are loaded, and how many of them in one turn

Result = TypeVar("Result")


class EngineProcess:
    """An engine in a process of its own, which computes only when it is called."""

    def __init__(self, runtime: Literal["onnx", "torch"], setup: Setup) -> None:
        self.runtime: Literal["onnx", "torch"] = runtime
        self.pool = ProcessPoolExecutor(
            1, get_context("spawn"), initializer=child.open_engine, initargs=(runtime, setup)
        )

    def __enter__(self) -> EngineProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.pool.shutdown()

    def __call__(self, function: Callable[..., Result], *arguments: Any) -> Result:
        return self.pool.submit(function, *arguments).result()


def single(setup: Setup) -> dict[str, Any]:
    """Measure one image at a time on one thread, each of another user, as seconds an image."""
    with EngineProcess("onnx", setup) as onnx, EngineProcess("torch", setup) as torch:
        seconds: dict[str, list[float]] = {"onnx": [], "torch": []}
        for turn in range(setup.rounds + 1):  # the first one is for warming up
            for engine in (onnx, torch):
                spent = engine(child.answer, turn, IMAGES, 1, 1) / IMAGES
                if turn:
                    seconds[engine.runtime].append(spent)
        size = onnx(child.image_size)
    pairs = zip(seconds["torch"], seconds["onnx"], strict=True)
    return {
        "size": size,
        "ms": {name: milliseconds(values) for name, values in seconds.items()},
        "ratio": round(statistics.median(theirs / ours for theirs, ours in pairs), 3),
    }


def batches(setup: Setup) -> dict[str, Any]:
    """Measure images a second of 32 images of 32 users: every plan of both engines, and the plans of the service."""
    threads = sorted({1, usable_cores()})
    plans: list[tuple[str, str, Callable[..., float], tuple[int, ...]]] = [
        ("onnx", "service", child.serve, ()),
        ("torch", "service", child.serve, ()),
    ]
    for size in SIZES:
        for count in threads:
            plans.append(("onnx", f"{size} × {count}", child.serve, (size, count)))
            plans.append(("torch", f"{size} × {count}", child.answer, (size, count)))
        plans.append(("onnx", f"{size}, answers", child.answer, (size, 1)))
    speeds: dict[str, dict[str, list[float]]] = {"onnx": {}, "torch": {}}
    with EngineProcess("onnx", setup) as onnx, EngineProcess("torch", setup) as torch:
        engines = {"onnx": onnx, "torch": torch}
        for turn in range(setup.rounds + 1):
            for runtime, name, function, arguments in plans:
                spent = engines[runtime](function, turn, IMAGES, *arguments)
                if turn:
                    speeds[runtime].setdefault(name, []).append(IMAGES / spent)
    medians = {
        runtime: {name: round(statistics.median(values), 1) for name, values in plans_of.items()}
        for runtime, plans_of in speeds.items()
    }
    best = {runtime: max(values, key=values.__getitem__) for runtime, values in medians.items()}
    return {
        "images a second": medians,
        "best": best,
        "ratio": round(medians["onnx"]["service"] / medians["torch"][best["torch"]], 3),
        "best ratio": round(medians["onnx"][best["onnx"]] / medians["torch"][best["torch"]], 3),
    }


def film(setup: Setup) -> dict[str, Any]:
    """Measure what γ and β of each image cost, and what it costs to serve every user with a model of its own."""
    with EngineProcess("onnx", setup) as onnx:
        return onnx(child.film_costs, setup.rounds)


def correct(setup: Setup) -> dict[str, Any]:
    """Send concurrent requests through cache and batcher, and compare with single predictions, also of torch."""
    count = min(SENDERS, len(setup.users.ids))
    chosen = random.Random(1).sample(range(len(setup.users.ids)), count)
    requests = [(chosen[i % count], i % len(setup.photos)) for i in range(setup.requests)]
    random.Random(2).shuffle(requests)
    with EngineProcess("onnx", setup) as onnx:
        result, answers = onnx(child.send_requests, requests, COMPARED)
    with EngineProcess("torch", setup) as torch:
        expected = torch(child.single_answers, requests[:COMPARED])
    pairs = zip(answers, expected, strict=True)
    difference = max(abs(ours[name] - p) for ours, theirs in pairs for name, p in theirs.items())
    return result | {
        "users": count,
        "compared with torch": len(expected),
        "difference from torch": difference,
    }


def cold(setup: Setup) -> dict[str, Any]:
    """Measure how long it takes to read an update from the store and to make a member of it."""
    seconds: dict[str, dict[str, list[float]]] = {}
    with EngineProcess("onnx", setup) as onnx, EngineProcess("torch", setup) as torch:
        for name, users in (("with support", setup.users), ("without support", setup.small)):
            ids = users.ids[-LOADED:]
            for begin in range(0, len(ids), CHUNK):
                for engine in (onnx, torch):
                    spent = engine(child.load_users, users, ids[begin : begin + CHUNK])
                    seconds.setdefault(engine.runtime, {}).setdefault(name, []).extend(spent)
        sizes = onnx(child.update_sizes)
    return {
        "users": len(setup.small.ids[-LOADED:]),
        "bytes": sizes,
        **{
            runtime: {name: percentiles(values) for name, values in by_kind.items()}
            for runtime, by_kind in seconds.items()
        },
    }


def user_memory(setup: Setup) -> dict[str, Any]:
    """Measure the growth of the process per cached user, relative to the size of an update without statistics."""
    with EngineProcess("onnx", setup) as onnx:
        return onnx(child.member_growth, SENDERS)
