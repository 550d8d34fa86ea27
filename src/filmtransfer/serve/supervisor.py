"""The worker processes of a service; a worker that dies is replaced.

Its training is claimed by another worker when the lease has expired, so nothing is lost.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..processes import ChildProcess

MODULE = "filmtransfer.serve.worker"
POLL_SECONDS = 0.5
LONG_LIFE = 60.0  # seconds after which a death is not taken for a repeated error at the start
MAX_DELAY = 60.0  # seconds before a worker is replaced

Report = Callable[[str], None]


class WorkerSupervisor:
    """A number of worker processes that run as long as the service."""

    def __init__(self, count: int, arguments: Sequence[str], folder: Path, report: Report) -> None:
        self.arguments = list(arguments)
        self.report = report
        self.stopping = threading.Event()
        names = [f"worker-{i + 1}" for i in range(count)]
        self.threads = [
            threading.Thread(target=self._supervise, args=(folder / f"{name}.log",), name=name)
            for name in names
        ]

    def start(self) -> None:
        """Start the workers."""
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        """Stop the workers and wait for their end."""
        self.stopping.set()
        for thread in self.threads:
            thread.join()

    def _supervise(self, log: Path) -> None:
        """Run one worker after the other; wait longer each time if the last one died soon after its start."""
        delay = 1.0
        while not self.stopping.is_set():
            child, start = ChildProcess(MODULE, self.arguments, log, os.environ), time.monotonic()
            try:
                while child.alive() and not self.stopping.wait(POLL_SECONDS):
                    pass
                if self.stopping.is_set():
                    return
                delay = 1.0 if time.monotonic() - start > LONG_LIFE else min(2 * delay, MAX_DELAY)
                self.report(
                    f"A worker ended ({child.last_line()}); another one starts in {delay:.0f} s. See {log}."
                )
            finally:
                child.stop()
            self.stopping.wait(delay)
