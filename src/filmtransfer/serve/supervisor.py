"""The worker processes of a service, which are started for trainings and end when there are none.

A worker needs torch, hence seconds to start and several hundred MB: a service that only predicts has none. A worker that
has nothing to do ends by itself. The training of one that dies is claimed by another when the lease has expired, so nothing
is lost.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ..errors import first_line
from ..processes import ChildProcess
from .settings import WORKER_IDLE, WORKER_READY
from .store import Store

MODULE = "filmtransfer.serve.worker"
POLL_SECONDS = 0.5
PATIENCE = 5.0  # seconds that a training waits for the running workers before another one is started
LONG_LIFE = 60.0  # seconds after which a death is not taken for a repeated error at the start
MAX_DELAY = 60.0  # seconds before a worker is replaced

logger = logging.getLogger(__name__)

Report = Callable[[str], None]


class WorkerSlot:
    """One worker process after the other, with their log."""

    def __init__(self, arguments: Sequence[str], log: Path, report: Report) -> None:
        self.arguments = arguments
        self.log = log
        self.report = report
        self.child: ChildProcess | None = None
        self.ready = False  # the worker has started and claims trainings
        self._started = self._resume = time.monotonic()
        self._delay = 1.0

    @property
    def paused(self) -> bool:
        """Whether the last worker died, and the next one has to wait: longer each time it dies at its start."""
        return time.monotonic() < self._resume

    @property
    def starting(self) -> bool:
        """Whether there is a worker that does not claim trainings yet, or will be when the pause is over."""
        return self.paused if self.child is None else not self.ready

    def start(self) -> None:
        """Start a worker."""
        self.ready, self._started = False, time.monotonic()
        try:
            self.child = ChildProcess(MODULE, self.arguments, self.log, os.environ)
        except OSError as error:
            self._pause(f"could not be started ({error.strerror})")

    def observe(self, may_end: bool) -> None:
        """Notice that the worker is ready, or that it has ended, which is no error if it ``may_end`` by itself."""
        child = self.child
        if child is None:
            return
        if child.alive():
            if not self.ready:
                self.ready = any(line.endswith(WORKER_READY) for line in child.new_lines())
            return
        self.stop()
        if child.process.returncode == 0 and may_end:
            self._delay = 1.0
        else:
            self._pause(f"ended ({child.last_line()})")

    def terminate(self) -> None:
        """Ask the worker to end, without waiting for it."""
        if self.child is not None:
            self.child.process.terminate()

    def stop(self) -> None:
        """Stop the worker, and wait for its end."""
        if self.child is not None:
            self.child.stop()
            self.child = None

    def _pause(self, event: str) -> None:
        now = time.monotonic()
        self._delay = 1.0 if now - self._started > LONG_LIFE else min(2 * self._delay, MAX_DELAY)
        self._resume = now + self._delay
        self.report(f"A worker {event}; another one can start in {self._delay:.0f} s. See {self.log}.")


class WorkerSupervisor:
    """Up to a number of worker processes, as many as the training queue needs.

    With ``idle`` 0 all of them are started with the service and kept.
    """

    def __init__(
        self,
        count: int,
        arguments: Sequence[str],
        folder: Path,
        store: Store,
        report: Report,
        idle: float = WORKER_IDLE,
    ) -> None:
        self.store = store
        self.report = report
        self.on_demand = idle > 0
        options = [*arguments, "--idle", str(idle)]
        self.slots = [WorkerSlot(options, folder / f"worker-{i + 1}.log", report) for i in range(count)]
        self._thread = threading.Thread(target=self._supervise, name="workers")
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._training_expected = threading.Event()
        self._overdue_at: float | None = None  # when a training has waited too long for the running workers
        self._problem_reported = False

    def start(self) -> None:
        """Start to supervise; without ``idle`` time, start the workers."""
        if self.slots:
            self._thread.start()

    def wake(self) -> None:
        """Look at the queue now, since a training was requested."""
        self._wake.set()

    def expect_training(self) -> None:
        """Start a worker unless there is one, since a training will probably be requested soon."""
        self._training_expected.set()
        self._wake.set()

    def can_train(self) -> bool:
        """Return whether a worker is there or can be started; without any here, they run elsewhere."""
        if not self.slots:
            return True
        return self._thread.is_alive() and any(
            slot.child is not None or not slot.paused for slot in self.slots
        )

    def end(self) -> None:
        """Begin to stop the workers."""
        self._stopping.set()
        self._wake.set()

    def stop(self) -> None:
        """Stop the workers and wait for their end."""
        self.end()
        if self.slots:
            self._thread.join()

    def _supervise(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    self._step()
                except Exception as error:  # of the store or a log file: the running workers stay supervised
                    self._report_problem(error)
                self._wake.wait(POLL_SECONDS)
                self._wake.clear()
        finally:
            for slot in self.slots:
                slot.terminate()
            for slot in self.slots:
                slot.stop()

    def _step(self) -> None:
        """Observe the workers, and start those that are needed."""
        expected = self._training_expected.is_set()
        self._training_expected.clear()
        for slot in self.slots:
            slot.observe(may_end=self.on_demand)
        free = [slot for slot in self.slots if slot.child is None and not slot.paused]
        if not self.on_demand:
            for slot in free:
                slot.start()
        elif free and self._needs_worker(expected):
            free[0].start()

    def _needs_worker(self, expected: bool) -> bool:
        """Return whether to start the first worker, or one more because a training waits although all have started."""
        overdue_at, self._overdue_at = self._overdue_at, None
        if any(slot.starting for slot in self.slots):
            return False
        running = any(slot.child is not None for slot in self.slots)
        if not running and expected:
            return True
        waits = self.store.trainings.has_claimable()
        self._problem_reported = False
        if not (running and waits):
            return waits
        now = time.monotonic()
        if overdue_at is not None and now >= overdue_at:
            return True
        self._overdue_at = overdue_at or now + PATIENCE
        return False

    def _report_problem(self, error: Exception) -> None:
        """Report that the store or something else failed, once until it works again."""
        if not self._problem_reported:
            self._problem_reported = True
            logger.warning("the workers cannot be supervised", exc_info=error)
            with suppress(OSError):  # of a full disk: the workers stay supervised
                self.report(f"No worker can be started now ({first_line(error)}).")
