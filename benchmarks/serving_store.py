"""The size of the database: bytes of rows and indexes per user, class, photo, version and training.

    python benchmarks/serving_store.py                                        SQLite, about a minute
    python benchmarks/serving_store.py --database postgresql://fit@host/empty     PostgreSQL, an empty database

Adds to benchmarks/results/serving_store.json, one entry for each kind of database.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import text

from filmtransfer.serve.store import Quota, Store, StoreLocation

FILE = Path(__file__).parent / "results" / "serving_store.json"
SUMMARY: dict[str, Any] = {
    "stage": "tuned",
    "classes": {f"class {i}": 10 for i in range(10)},
    "accuracy": 0.9123,
    "confusion": [[1] * 10] * 10,
    "photos": [
        {"index": i, "id": "0" * 16, "truth": "class 1", "said": "class 2", "p": 0.9123} for i in range(100)
    ],
}


def size(store: Store) -> int:
    """Return the bytes of the database without deleted rows."""
    database = store.database
    if database.is_sqlite:
        database.scrub()
        with database.read() as connection:
            pages, page = (
                connection.execute(text(f"PRAGMA {pragma}")).scalar_one()
                for pragma in ("page_count", "page_size")
            )
        return int(pages * page)
    with database.read() as connection:
        return int(
            connection.execute(
                text("SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relname LIKE 'fit_%' AND relkind = 'r'")
            ).scalar_one()
        )  # fmt: skip


def measure(store: Store, users: int, photos: int) -> dict[str, float]:
    """Add many of each, and return the growth of the database per record."""
    sizes: dict[str, float] = {}

    def grow(kind: str, count: int, add: Callable[[], object]) -> None:
        before = size(store)
        add()
        sizes[kind] = round((size(store) - before) / count, 1)

    ids: list[str] = []
    grow(
        "user", 2000, lambda: ids.extend(store.users.create(f"user {i}", Quota())[0].id for i in range(2000))
    )
    chosen = [store.projects.resolve(id) for id in ids[:users]]
    classes = {}

    def add_classes() -> None:
        classes.update({id: [store.classes.add(id, f"class {k}").id for k in range(10)] for id in chosen})

    def add_photos() -> None:
        for id in chosen:
            for i in range(photos):
                store.photos.add(id, classes[id][i % 10], f"{id} {i}".encode(), b"small", "image/jpeg")

    def train() -> None:
        for id in chosen:
            training = store.trainings.request(id, {"steps": 50})
            store.trainings.claim("a worker", lease=60)
            for step in range(20):
                progress = {"step": step, "steps": 50, "loss": 0.1234, "accuracy": 0.9, "seconds_left": 12.3}
                store.trainings.add_event(training.id, "a worker", "progress", progress)
            store.trainings.end(training.id, "a worker", "done")

    grow("class", users * 10, add_classes)
    grow("photo", users * photos, add_photos)
    grow(
        "version",
        users * 5,
        lambda: [store.versions.publish(id, b"x", "trained", SUMMARY) for id in chosen for _ in range(5)],
    )
    grow("training", users, train)
    return sizes


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--database")
    options.add_argument("--users", type=int, default=20)
    options.add_argument("--photos", type=int, default=50)
    args = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(
            StoreLocation(args.database or f"sqlite:///{folder}/fit.db", "memory://serving-store")
        )
        kind = "SQLite" if store.database.is_sqlite else "PostgreSQL"
        measured = measure(store, args.users, args.photos)
        store.close()
    results = json.loads(FILE.read_text()) if FILE.exists() else {}
    results[kind] = {**measured, "photos_in_summary": len(SUMMARY["photos"]), "events_in_training": 21}
    FILE.write_text(json.dumps(results, indent=2) + "\n")
    print(json.dumps(results[kind], indent=2))


if __name__ == "__main__":
    main()
