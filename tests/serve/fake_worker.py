"""A worker without torch: it claims trainings as the real one does, and their options say what happens then."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time

from filmtransfer.processes import terminate_with_parent
from filmtransfer.serve.settings import WORKER_READY
from filmtransfer.serve.store import Store, StoreLocation, Training


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--database", required=True)
    parser.add_argument("--lease", type=float, required=True)
    parser.add_argument("--idle", type=float, required=True)
    args = parser.parse_args()
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    terminate_with_parent()
    store, name, last = Store.open(StoreLocation(args.database)), f"fake-{os.getpid()}", time.monotonic()
    print(f"worker {name} {WORKER_READY}", flush=True)
    while not stopping.wait(0.05):
        training = store.trainings.claim(name, args.lease)
        if training is not None:
            run(store, training, name, args.lease, stopping)
            last = time.monotonic()
        elif args.idle and time.monotonic() - last >= args.idle:
            break
    store.close()


def run(store: Store, training: Training, name: str, lease: float, stopping: threading.Event) -> None:
    if "die" in training.options:
        print("something terrible", file=sys.stderr, flush=True)
        os._exit(9)
    if "hold" not in training.options:
        store.trainings.end(training.id, name, "done")
        return
    while store.trainings.renew(training.id, name, lease) and not stopping.wait(
        0.05
    ):  # until it is cancelled
        pass


if __name__ == "__main__":
    main()
