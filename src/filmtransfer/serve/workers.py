"""Worker processes that train, and an eye on them: one that dies is replaced.

A training whose worker died is taken up by the next one when its lease has run out, so nothing is lost by that.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..processes import ChildProcess

MODULE = "filmtransfer.serve.worker"
LOOK_SECONDS = 0.5
LIVED = 60.0  # seconds after which an end is bad luck and not a mistake that comes again at once
RELEASE_SECONDS = 60.0  # the longest wait before another one is started

Say = Callable[[str], None]


class Workers:
    """So many workers, as long as the service is there."""

    def __init__(self, count: int, words: Sequence[str], folder: Path, say: Say) -> None:
        self.words = list(words)
        self.say = say
        self.stop = threading.Event()
        self.threads = [
            threading.Thread(
                target=self._keep, args=(folder / f"worker-{i + 1}.log",), name=f"worker-{i + 1}"
            )
            for i in range(count)
        ]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def end(self) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def _keep(self, log: Path) -> None:
        """One worker after the other, each with more patience if the last one died young."""
        wait = 1.0
        while not self.stop.is_set():
            child, began = ChildProcess(MODULE, self.words, log, os.environ), time.monotonic()
            try:
                while child.alive() and not self.stop.wait(LOOK_SECONDS):
                    pass
                if self.stop.is_set():
                    return
                wait = 1.0 if time.monotonic() - began > LIVED else min(2 * wait, RELEASE_SECONDS)
                self.say(
                    f"A worker ended ({child.last_line()}); another one starts in {wait:.0f} s. See {log}."
                )
            finally:
                child.stop()
            self.stop.wait(wait)
