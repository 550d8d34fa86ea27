"""Thousands of users on one backbone: onnxruntime against torch, latency, memory, correctness and the working set.

    python benchmarks/serving.py --data ../shared/data --users 10000
    python benchmarks/serving.py --data ../shared/data --users 10000 --part single batches

Writes benchmarks/results/serving.json, and serving.md once all parts have been measured. What is compared runs in turns in
processes of its own, which wait while they are not measured; ratios are of one run. The machine should be idle otherwise.
``--keep FOLDER`` stores the users, whose creation takes minutes, for the next run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filmtransfer.files import CACHE_VARIABLE as VARIABLE
from serving_engines import batches, cold, correct, film, single
from serving_http import active, latency, resident
from serving_page import write_page
from serving_setup import Setup
from serving_users import BACKBONE, export_folded, make_users, photos

FILE = Path(__file__).parent / "results" / "serving.json"
SMALL_UPDATES = 300  # users whose updates are stored without support features, to load only

Part = Callable[[Setup], dict[str, Any]]
PARTS: dict[str, Part] = {
    "single": single,
    "batches": batches,
    "film": film,
    "resident": resident,
    "correct": correct,
    "cold": cold,
    "latency": latency,
    "active": active,
}


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--data", type=Path, help="image sets for training and requests; else drawings")
    options.add_argument("--users", type=int, default=10_000)
    options.add_argument("--requests", type=int, default=10_000, help="of the part correct")
    options.add_argument("--rounds", type=int, default=7, help="of each measurement without HTTP")
    options.add_argument("--seconds", type=float, default=40, help="of each measurement over HTTP")
    options.add_argument("--keep", type=Path, help="where the users are stored for the next run")
    options.add_argument(
        "--before", type=Path, help="a checkout of the version before, to compare its memory"
    )
    options.add_argument("--part", choices=PARTS, nargs="+", default=list(PARTS))
    args = options.parse_args()
    limit_spinning()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (args.keep or Path(scratch)).resolve()
        os.environ[VARIABLE] = str(folder / "graphs")
        setup = Setup(
            make_users(folder / "users", args.users, args.data, log),
            make_users(folder / "small", min(SMALL_UPDATES, args.users), args.data, log, support=False),
            photos(args.data, 64),
            export_folded(folder, args.data),
            args.requests,
            args.rounds,
            args.seconds,
            args.before,
        )
        for part in args.part:
            log(part)
            load = os.getloadavg()[0]
            save(part, PARTS[part](setup) | {"machine load": round(load, 1)}, args)
    write_page(FILE, PARTS)


def limit_spinning() -> None:
    """Let the threads of torch and OpenBLAS sleep soon, in this process's children, as the command ``fit`` does."""
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def save(part: str, result: dict[str, Any], args: argparse.Namespace) -> None:
    """Add a part to the results file, which may have parts of earlier runs."""
    log(f"{part} {json.dumps(result)}")
    FILE.parent.mkdir(exist_ok=True)
    stored = json.loads(FILE.read_text()) if FILE.exists() else {}
    results = {name: stored[name] for name in PARTS if name in stored} | {part: result}
    about = {
        "command": f"python benchmarks/serving.py {'--data DIR ' if args.data else ''}{'--before CHECKOUT ' if args.before else ''}--users {args.users}"
        f" --requests {args.requests} --rounds {args.rounds} --seconds {args.seconds:g}"
        + ("" if args.part == list(PARTS) else " --part …"),
        "machine": {
            "cores": len(os.sched_getaffinity(0)),
            **{name: version(name) for name in ("torch", "onnxruntime")},
        },
        "users": args.users,
        "backbone": BACKBONE,
    }
    FILE.write_text(json.dumps(about | results, indent=1) + "\n")


def log(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
