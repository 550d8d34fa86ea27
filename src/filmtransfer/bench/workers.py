"""Workers for a sweep: processes of this machine, or tasks on a Ray cluster."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from pathlib import Path

from ..errors import UsageError, check_count
from ..processes import exit_with_parent
from ..ray_cluster import connect
from .recipe import Run
from .sweep import RunOutcome, attempt_run


class LocalWorkers:
    """``slots`` local processes, each in its own pool of one, so that the death of a process loses one run."""

    def __init__(self, slots: int, root: Path, threads: int | None = None) -> None:
        check_count("workers", slots)
        check_count("threads", 1 if threads is None else threads)
        self.slots = slots
        self.root = root
        self.threads = threads
        self.idle = [self._pool() for _ in range(slots)]
        self.busy: dict[Future[RunOutcome], tuple[ProcessPoolExecutor, Run]] = {}

    def start(self, run: Run) -> None:
        """Start a run in an idle process."""
        pool = self.idle.pop()
        try:
            future = pool.submit(attempt_run, run, self.root)
        except BrokenExecutor:  # its process died while it was idle
            pool.shutdown(wait=False)
            pool = self._pool()
            future = pool.submit(attempt_run, run, self.root)
        self.busy[future] = (pool, run)

    def next(self) -> RunOutcome:
        """Wait for the next run to end; a process that died is replaced."""
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
        """Terminate the processes; unfinished runs are discarded."""
        for pool in [*self.idle, *(pool for pool, _ in self.busy.values())]:
            for process in list((pool._processes or {}).values()):
                process.terminate()
            pool.shutdown(wait=True, cancel_futures=True)

    def _pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            1, multiprocessing.get_context("spawn"), _initialize, (self.slots, self.threads)
        )


def _initialize(slots: int, threads: int | None) -> None:
    """Prepare a new process: its share of the cores, and an end when its parent ends."""
    import signal

    from ..training.torch_settings import configure_process

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles it and ends the workers
    exit_with_parent()
    configure_process(threads, slots)


class RayWorkers:
    """Runs as tasks of a Ray cluster; the data have the same path on each of its machines."""

    def __init__(self, address: str, root: Path, threads: int = 1) -> None:
        check_count("threads", threads)
        self.ray = ray = connect(address, "cluster", "--workers")
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        self.slots = sum(int(node.get("CPU", 0)) // threads for node in nodes)
        if not self.slots:
            ray.shutdown()
            raise UsageError(
                f"No machine of the Ray cluster at {address} has {threads} CPUs.", "Choose fewer --threads."
            )
        gpus = sum(int(node.get("GPU", 0)) for node in nodes)
        if gpus:  # one per run; Ray hides them from tasks that do not request one
            self.slots = min(self.slots, gpus)
        self.task = ray.remote(num_cpus=threads, num_gpus=min(gpus, 1), max_retries=0)(_attempt_on_ray)
        self.root = root.resolve()
        self.threads = threads
        self.busy: dict[object, Run] = {}

    def start(self, run: Run) -> None:
        """Submit a run to the cluster."""
        self.busy[self.task.remote(run, self.root, self.threads)] = run

    def next(self) -> RunOutcome:
        """Wait for the next run to end."""
        done = self.ray.wait(list(self.busy), num_returns=1)[0][0]
        run = self.busy.pop(done)
        try:
            outcome: RunOutcome = self.ray.get(done)
        except self.ray.exceptions.RayError as error:  # a worker or its machine died
            return RunOutcome(run, error=f"Ray lost the run ({type(error).__name__}).")
        return outcome

    def close(self) -> None:
        """Cancel unfinished runs and disconnect from the cluster."""
        for task in self.busy:
            self.ray.cancel(task, force=True)
        self.ray.shutdown()


def _attempt_on_ray(run: Run, root: Path, threads: int) -> RunOutcome:
    from ..training.torch_settings import configure_process

    configure_process(threads, 1)
    return attempt_run(run, root)
