"""The resources of a service for a million users, estimated from measurements with thousands.

    python benchmarks/serving_million.py [--users 1000000 --photos 60 …]

Reads results/serving.json (speed, memory and size of classifiers), serving_store.json (rows) and engine.json (trainings),
and writes results/serving_million.md. The assumptions are listed with the results.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import mean
from typing import Any

from filmtransfer.serve.store.trainings import MAX_TRAININGS

RESULTS = Path(__file__).parent / "results"
DAY, MONTH = 86_400, 30 * 86_400


@dataclass(frozen=True)
class Assumed:
    """What users do, which has not been measured."""

    users: int = 1_000_000
    active: float = 0.1  # share of users on a day
    photos: int = 60  # of one user
    photo_kb: int = 500  # each, as the page sends it
    thumbnail_kb: int = 8
    classes: int = 6
    versions: int = 4
    predictions: int = 20  # of an active user on a day
    trainings: float = 1.0  # of one user in a month
    busy: float = 4.0  # times the mean in the busiest hour
    filled: float = 0.6  # utilization of the processors then


@dataclass(frozen=True)
class Measured:
    """What was measured for one user, request and training."""

    stored: int  # bytes of a stored update with its support features
    member: int  # bytes of a user in memory
    request: float  # seconds of one core for a prediction over HTTP
    image: float  # of those, the backbone's
    training: float  # seconds of one core for a training
    rows: dict[str, float]  # bytes in PostgreSQL


def read() -> Measured:
    """Read the measurements from the results of the other benchmarks."""
    serving, store, engine = (
        json.loads(_file(name).read_text()) for name in ("serving.json", "serving_store.json", "engine.json")
    )
    cores = serving["machine"]["cores"]
    threads = engine["machine"]["threads"]
    return Measured(
        serving["resident"]["user"]["stored"],
        serving["resident"]["user"]["bytes a user"],
        cores / serving["latency"]["load"]["requests a second"],
        serving["single"]["ms"]["onnx"]["median"] / 1000,
        threads * mean(run["fast_seconds"] for run in engine["accuracy"].values()),
        store["PostgreSQL"],
    )


def estimate(a: Assumed, m: Measured) -> list[tuple[str, str, str]]:
    """Return rows of quantity, value and derivation."""
    photos = a.users * a.photos * a.photo_kb * 1e3
    thumbnails = a.users * a.photos * a.thumbnail_kb * 1e3
    versions = a.users * a.versions * m.stored
    of_user = m.rows["user"] + a.classes * m.rows["class"] + a.photos * m.rows["photo"]
    of_user += a.versions * m.rows["version"] + min(12 * a.trainings, MAX_TRAININGS) * m.rows["training"]
    rate = a.users * a.active * a.predictions / DAY
    cores = rate * a.busy * m.request / a.filled
    at_best = rate * a.busy * m.image / a.filled
    trainings = a.users * a.trainings / MONTH
    training_cores = trainings * a.busy * m.training / a.filled
    everyone, active = a.users * m.member, a.users * a.active * m.member
    return [
        ("photos, in the object store", _bytes(photos), f"{a.photos} of {a.photo_kb} KB each"),
        ("thumbnails", _bytes(thumbnails), f"{a.thumbnail_kb} KB each"),
        ("classifiers, in the object store", f"**{_bytes(versions)}**", f"{a.versions} versions of {_bytes(m.stored)} with their support features"),
        ("objects", f"{a.users * (2 * a.photos + a.versions) / 1e6:,.0f} million", "two per photo, one per version"),
        ("rows, in PostgreSQL", _bytes(a.users * of_user), f"{_bytes(of_user)} per user, with the trainings of a year"),
        ("memory for the classifiers of a day's active users", f"**{_bytes(active)}**", f"{_bytes(m.member)} each, {a.active:.0%} of users; once, if the proxy sends a user always to the same process"),
        ("memory for the classifiers of all users", _bytes(everyone), "if no request should wait for loading"),
        ("predictions per second: mean, busiest hour", f"{rate:,.0f}, {rate * a.busy:,.0f}", f"{a.predictions} per active user and day; {a.busy:g} times the mean"),
        ("cores for predictions in the busiest hour", f"**{math.ceil(cores):,}**", f"{1000 * m.request:.0f} ms of a core per request over HTTP, {a.filled:.0%} utilization"),
        ("… of these for the backbone", f"{math.ceil(at_best):,}", f"{1000 * m.image:.0f} ms of a core per image"),
        ("trainings per second: mean, busiest hour", f"{trainings:.2f}, {trainings * a.busy:.2f}", f"{a.trainings:g} per user and month"),
        ("cores for trainings in the busiest hour", f"**{math.ceil(training_cores):,}**", f"{m.training:.0f} s of a core per training; if trainings may wait: {math.ceil(trainings * m.training / a.filled):,}"),
    ]  # fmt: skip


def page(rows: list[tuple[str, str, str]], a: Assumed) -> str:
    lines = [f"| {a.users:,} users | | from |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def _bytes(count: float) -> str:
    for unit, size in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def _file(name: str) -> Path:
    path = RESULTS / name
    if not path.exists():
        sys.exit(f"{path} is missing: run the benchmark that makes it first (see the top of this file).")
    return path


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for one in fields(Assumed):
        kind: Any = type(one.default)
        options.add_argument(f"--{one.name.replace('_', '-')}", type=kind, default=one.default)
    assumed = Assumed(**vars(options.parse_args()))
    text = page(estimate(assumed, read()), assumed)
    (RESULTS / "serving_million.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
