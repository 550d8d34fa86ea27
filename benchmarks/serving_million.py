"""What a service for a million users would take, reckoned from what was measured for thousands.

    python benchmarks/serving_million.py [--users 1000000 --photos 60 …]

Reads results/serving.json (speed, memory and size of classifiers), serving_store.json (rows) and engine.json (trainings),
and writes results/serving_million.md. The assumptions are ours and are written beside the results.
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

RESULTS = Path(__file__).parent / "results"
DAY, MONTH = 86_400, 30 * 86_400
KEPT = 20  # trainings of a user that the store remembers


@dataclass(frozen=True)
class Assumed:
    """What users do; nobody has measured that."""

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
    filled: float = 0.6  # share of a processor that may be in use then


@dataclass(frozen=True)
class Measured:
    stored: int  # bytes of an update with its support features, as kept
    member: int  # bytes of a user in memory
    request: float  # seconds of one core for a prediction over HTTP
    image: float  # of those, the backbone's in a mixed batch
    training: float  # seconds of one core for a training
    rows: dict[str, float]  # bytes in PostgreSQL


def read() -> Measured:
    serving, store, engine = (
        json.loads(_file(name).read_text()) for name in ("serving.json", "serving_store.json", "engine.json")
    )
    cores = serving["machine"]["cores"]
    threads = engine["machine"]["threads"]
    return Measured(
        serving["memory"]["stored"],
        serving["memory"]["bytes a user"],
        cores / serving["http"]["load"]["requests a second"],
        serving["throughput"]["ms"]["mixed"] / 1000,
        threads * mean(run["fast_seconds"] for run in engine["accuracy"].values()),
        store["PostgreSQL"],
    )


def reckon(a: Assumed, m: Measured) -> list[tuple[str, str, str]]:
    """(what, how much, how it comes about)"""
    photos = a.users * a.photos * a.photo_kb * 1e3
    small = a.users * a.photos * a.thumbnail_kb * 1e3
    versions = a.users * a.versions * m.stored
    of_user = m.rows["user"] + a.classes * m.rows["class"] + a.photos * m.rows["photo"]
    of_user += a.versions * m.rows["version"] + min(12 * a.trainings, KEPT) * m.rows["training"]
    rate = a.users * a.active * a.predictions / DAY
    cores = rate * a.busy * m.request / a.filled
    at_best = rate * a.busy * m.image / a.filled
    trainings = a.users * a.trainings / MONTH
    training_cores = trainings * a.busy * m.training / a.filled
    everyone, active = a.users * m.member, a.users * a.active * m.member
    return [
        ("photos, in the object store", _bytes(photos), f"{a.photos} of {a.photo_kb} KB each"),
        ("thumbnails", _bytes(small), f"{a.thumbnail_kb} KB each"),
        ("classifiers, in the object store", f"**{_bytes(versions)}**", f"{a.versions} versions of {_bytes(m.stored)} with their support features"),
        ("objects", f"{a.users * (2 * a.photos + a.versions) / 1e6:,.0f} million", "two for a photo, one for a version"),
        ("rows, in PostgreSQL", _bytes(a.users * of_user), f"{_bytes(of_user)} a user, a year of trainings included"),
        ("memory for a day's active users' classifiers", f"**{_bytes(active)}**", f"{_bytes(m.member)} each, {a.active:.0%} of users; once, if the proxy sends a user to the same process"),
        ("memory for all users' classifiers", _bytes(everyone), "if nobody should ever wait for a load"),
        ("predictions a second: mean, busiest hour", f"{rate:,.0f}, {rate * a.busy:,.0f}", f"{a.predictions} of an active user a day; {a.busy:g} times the mean"),
        ("cores that answer, in the busiest hour", f"**{math.ceil(cores):,}**", f"{1000 * m.request:.0f} ms of a core for a request over HTTP, filled to {a.filled:.0%}"),
        ("… of these for the backbone", f"{math.ceil(at_best):,}", f"{1000 * m.image:.0f} ms of a core for an image in a mixed batch"),
        ("trainings a second: mean, busiest hour", f"{trainings:.2f}, {trainings * a.busy:.2f}", f"{a.trainings:g} of a user a month"),
        ("cores that train, in the busiest hour", f"**{math.ceil(training_cores):,}**", f"{m.training:.0f} s of a core for a training; a queue that may wait needs {math.ceil(trainings * m.training / a.filled):,}"),
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
    found = RESULTS / name
    if not found.exists():
        sys.exit(f"{found} is missing: run the benchmark that makes it first (see the top of this file).")
    return found


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for one in fields(Assumed):
        kind: Any = type(one.default)
        options.add_argument(f"--{one.name.replace('_', '-')}", type=kind, default=one.default)
    assumed = Assumed(**vars(options.parse_args()))
    text = page(reckon(assumed, read()), assumed)
    (RESULTS / "serving_million.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
