"""Workers for a sweep: processes of this machine, or tasks on a Ray cluster."""

from __future__ import annotations

import logging
import multiprocessing
import os
import socket
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

from ..errors import MissingExtraError, UnavailableError, UsageError
from .recipe import Run
from .sweep import RunOutcome, attempt_run


class LocalWorkers:
    """``slots`` processes, each with its own pool of one, so that a death is the loss of one run."""

    def __init__(self, slots: int, root: Path, threads: int | None = None) -> None:
        _at_least_one("workers", slots)
        _at_least_one("threads", 1 if threads is None else threads)
        self.slots = slots
        self.root = root
        self.threads = threads
        self.idle = [self._pool() for _ in range(slots)]
        self.busy: dict[Future[RunOutcome], tuple[ProcessPoolExecutor, Run]] = {}

    def start(self, run: Run) -> None:
        pool = self.idle.pop()
        try:
            future = pool.submit(attempt_run, run, self.root)
        except BrokenExecutor:  # its process died while it had nothing to do
            pool.shutdown(wait=False)
            pool = self._pool()
            future = pool.submit(attempt_run, run, self.root)
        self.busy[future] = (pool, run)

    def next(self) -> RunOutcome:
        done = next(iter(wait(self.busy, return_when=FIRST_COMPLETED).done))
        pool, run = self.busy.pop(done)
        try:
            outcome = done.result()
        except BrokenExecutor:
            pool.shutdown(wait=False)
            pool = self._pool()
            outcome = RunOutcome(run, error="the worker died (killed, or out of memory).")
        self.idle.append(pool)
        return outcome

    def close(self) -> None:
        """End the workers at once: what they have not finished was not going to be kept."""
        for pool in [*self.idle, *(pool for pool, _ in self.busy.values())]:
            for process in list((pool._processes or {}).values()):
                process.terminate()
            pool.shutdown(wait=True, cancel_futures=True)

    def _pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            1, multiprocessing.get_context("spawn"), _settle, (self.slots, self.threads, os.getpid())
        )


def _settle(slots: int, threads: int | None, parent: int) -> None:
    """In a new worker: its share of the cores, an end with its parent, and no word to the terminal."""
    import signal

    from ..training.torch_settings import prepare

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it, and ends the workers
    _end_with(parent)
    prepare(threads, slots)


def _end_with(parent: int) -> None:
    """A worker whose parent was killed must not go on for nobody."""
    import threading
    import time

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class RayWorkers:
    """Runs as tasks of a Ray cluster; the data lie under the same path on each of its machines."""

    def __init__(self, address: str, root: Path, threads: int = 1) -> None:
        try:
            import ray
        except ImportError:
            raise MissingExtraError("--ray", "cluster") from None
        _at_least_one("threads", threads)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or it speaks of its future
        try:
            _knock(address)
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, OverflowError, RuntimeError, ValueError) as error:
            raise UnavailableError(
                f"There is no Ray cluster at {address} ({str(error).splitlines()[0]}).",
                "Start one with 'ray start --head', or use --workers.",
            ) from None
        self.ray = ray
        cluster: Any = ray
        nodes: list[Any] = [node["Resources"] for node in cluster.nodes() if node["Alive"]]
        self.slots = sum(int(node.get("CPU", 0)) // threads for node in nodes)
        if not self.slots:
            ray.shutdown()
            raise UsageError(
                f"No machine of the Ray cluster at {address} has {threads} CPUs.", "Choose fewer --threads."
            )
        gpus = sum(int(node.get("GPU", 0)) for node in nodes)
        if gpus:  # a run each; Ray hides them from tasks that do not ask
            self.slots = min(self.slots, gpus)
        self.task: Any = ray.remote(num_cpus=threads, num_gpus=min(gpus, 1), max_retries=0)(_on_ray)
        self.root = root.resolve()
        self.threads = threads
        self.busy: dict[Any, Run] = {}

    def start(self, run: Run) -> None:
        self.busy[self.task.remote(run, self.root, self.threads)] = run

    def next(self) -> RunOutcome:
        done = self.ray.wait(list(self.busy), num_returns=1)[0][0]
        run = self.busy.pop(done)
        try:
            outcome: RunOutcome = self.ray.get(done)
        except self.ray.exceptions.RayError as error:  # a worker or its machine is gone
            return RunOutcome(run, error=f"Ray lost it ({type(error).__name__}).")
        return outcome

    def close(self) -> None:
        for task in self.busy:
            self.ray.cancel(task, force=True)
        self.ray.shutdown()


def _knock(address: str) -> None:
    """Find out at once whether anybody is there; Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), timeout=10).close()


def _at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise UsageError(f"{name} cannot be {value}.", "It is a whole number of at least 1.")


def _on_ray(run: Run, root: Path, threads: int) -> RunOutcome:
    from ..training.torch_settings import prepare

    prepare(threads, 1)
    return attempt_run(run, root)
