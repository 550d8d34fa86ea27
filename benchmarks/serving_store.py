"""What a user costs the database: bytes of rows and indexes for each user, photo, version, training and event.

    python benchmarks/serving_store.py                                        SQLite, about a minute
    python benchmarks/serving_store.py --database postgresql://fit@host/empty     PostgreSQL, an empty database

Adds to benchmarks/results/serving_store.json, one entry per kind of database. Sizes only, so a busy machine does no harm.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import text

from filmtransfer.serve.store import Quota, Store, StoreLocation

FILE = Path(__file__).parent / "results" / "serving_store.json"
SUMMARY = {
    "stage": "tuned",
    "classes": {f"class {i}": 10 for i in range(10)},
    "accuracy": 0.9123,
    "confusion": [[1] * 10] * 10,
    "photos": [
        {"index": i, "id": "0" * 16, "truth": "class 1", "said": "class 2", "p": 0.9123} for i in range(100)
    ],
}


def size(store: Store) -> int:
    """Bytes of the database when it is tidy."""
    database = store.database
    if database.is_sqlite:
        database.scrub()
        with database.read() as connection:
            pages, page = (
                connection.execute(text(f"PRAGMA {word}")).scalar_one()
                for word in ("page_count", "page_size")
            )
        return int(pages * page)
    with database.read() as connection:
        return int(
            connection.execute(
                text("SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relname LIKE 'fit_%' AND relkind = 'r'")
            ).scalar_one()
        )  # fmt: skip


def measure(store: Store, users: int, photos: int) -> dict[str, float]:
    """Add many of each, and see by how much the database grows for one."""
    found: dict[str, float] = {}

    def grow(what: str, count: int, add: Callable[[], None]) -> None:
        before = size(store)
        add()
        found[what] = round((size(store) - before) / count, 1)

    ids: list[str] = []
    grow(
        "user", 2000, lambda: ids.extend(store.users.create(f"user {i}", Quota())[0].id for i in range(2000))
    )
    some = ids[:users]
    classes = {}

    def add_classes() -> None:
        classes.update({id: [store.classes.add(id, f"class {k}").id for k in range(10)] for id in some})

    def add_photos() -> None:
        for id in some:
            for i in range(photos):
                store.photos.add(id, classes[id][i % 10], f"{id} {i}".encode(), b"small", "image/jpeg")

    def train() -> None:
        for id in some:
            asked = store.trainings.request(id, {"steps": 50})
            store.trainings.claim("a worker")
            for step in range(20):
                told = {"step": step, "steps": 50, "loss": 0.1234, "accuracy": 0.9, "seconds_left": 12.3}
                store.trainings.add_event(asked.id, "a worker", "progress", told)
            store.trainings.end(asked.id, "a worker", "done")

    grow("class", users * 10, add_classes)
    grow("photo", users * photos, add_photos)
    grow(
        "version",
        users * 5,
        lambda: (
            [store.versions.publish(id, b"x", "trained", SUMMARY) for id in some for _ in range(5)] and None
        ),
    )
    grow("training", users, train)
    return found


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
    found = json.loads(FILE.read_text()) if FILE.exists() else {}
    found[kind] = {**measured, "photos_in_summary": len(SUMMARY["photos"]), "events_in_training": 21}
    FILE.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found[kind], indent=2))


if __name__ == "__main__":
    main()
