"""Kill what writes to a store a thousand times, and count what was lost: nothing may be.

    python -m benchmarks.kills [--kills 1000]

A process adds, moves and deletes photos, publishes and deletes versions, and runs trainings, as fast as it can, and reports each write
that the store has acknowledged. It is killed (kill -9) at a random moment, again and again; in the last rows it is the PostgreSQL server
that is killed, with all its processes. After every kill the store must be exactly as acknowledged, or with the one write that was
under way. Writes benchmarks/results/kills.json and kills.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.serve.postgres import Cluster
from tests.serve.store.kills import SERVER as FORKSERVER
from tests.serve.store.kills import kill_writers

from filmtransfer.serve.store import StoreLocation

FILE = Path(__file__).parent / "results" / "kills.json"
SEED = 0
SQLITE_ROWS, SQLITE_FOLDER = "SQLite, bytes in rows", "SQLite, bytes in a folder"
POSTGRES, SERVER = "PostgreSQL, bytes in a folder", "the PostgreSQL server itself"
SHARES = {SQLITE_ROWS: 0.35, SQLITE_FOLDER: 0.35, POSTGRES: 0.2, SERVER: 0.1}


def measure(kind: str, kills: int) -> dict[str, Any]:
    """Kill the writers of a new store, or its server."""
    generator, start = random.Random(SEED), time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if kind in (SQLITE_ROWS, SQLITE_FOLDER):
            location = StoreLocation.of(folder)
            if kind == SQLITE_ROWS:
                location = StoreLocation(location.database)
            tally = kill_writers(location, kills, generator)
        else:
            folder.chmod(0o755)  # the server runs as another user
            root = folder / "cluster"
            root.mkdir()
            cluster = Cluster(root)
            cluster.start()
            try:
                location = StoreLocation(cluster.fresh(), str(folder / "objects"))
                if kind == SERVER:
                    tally = kill_writers(
                        location, kills, generator, lambda: cluster.stop(crash=True), cluster.start
                    )
                else:
                    tally = kill_writers(location, kills, generator)
            finally:
                cluster.stop(crash=True)
    counts = {name: getattr(tally, name) for name in ("kills", "acknowledged", "interrupted", "completed")}
    return {"killed": kind, **counts, "seconds": round(time.perf_counter() - start, 1)}


def page(results: dict[str, Any]) -> str:
    """Return the results as a page in Markdown."""
    rows = results["rows"]
    lines = [
        f"{sum(row['kills'] for row in rows):,} kills on {results['cores']} cores; made by `{results['command']}`. "
        f"After each one the store was exactly as acknowledged, or with the write that was under way: nothing was lost.",
        "",
        "| killed | kills | acknowledged writes | writes under way | of those, in effect |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        name = row["killed"] if row["killed"] == SERVER else f"the writer: {row['killed']}"
        lines.append(
            f"| {name} | {row['kills']:,} | {row['acknowledged']:,} | {row['interrupted']:,} | {row['completed']:,} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--kills", type=int, default=1000)
    args = options.parse_args()
    FORKSERVER.set_forkserver_preload(["__main__"])  # what each writer would import again
    rows = []
    for kind, share in SHARES.items():
        rows.append(measure(kind, max(1, round(args.kills * share))))
        print(json.dumps(rows[-1]), flush=True)
    results = {
        "command": f"python -m benchmarks.kills --kills {args.kills}",
        "cores": len(os.sched_getaffinity(0)),
        "rows": rows,
    }
    FILE.write_text(json.dumps(results, indent=1) + "\n")
    FILE.with_suffix(".md").write_text(page(results))


if __name__ == "__main__":
    main()
