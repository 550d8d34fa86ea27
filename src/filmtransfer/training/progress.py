"""What a training run reports of itself: records of the logger "filmtransfer", and lines on stderr if it is verbose."""

from __future__ import annotations

import logging
import sys
import time
from dataclasses import replace
from typing import TextIO

from ..errors import UsageError
from ..formatting import duration
from .callbacks import Callbacks, Progress

LINES = 10  # of steps, where a line cannot be rewritten

logger = logging.getLogger("filmtransfer")
logger.addHandler(logging.NullHandler())  # a library prints nothing that was not asked for


class ProgressLines:
    """Writes phases as lines, and steps as one line that is rewritten on a terminal."""

    def __init__(self, stream: TextIO, every_step: bool = False) -> None:
        self.stream = stream
        self.every_step = every_step
        self.rewrites = stream.isatty() and not every_step
        self.width = 0  # of the line that will be rewritten

    def line(self, text: str) -> None:
        """Write a line below what was written before."""
        self.stream.write(("\n" if self.width else "") + text + "\n")
        self.stream.flush()
        self.width = 0

    def on_step(self, progress: Progress) -> None:
        """Write the state of the run after a step."""
        text = describe_step(progress)
        if self.rewrites:
            self.stream.write("\r" + text.ljust(self.width))
            self.stream.flush()
            self.width = len(text)
        elif self.every_step or _tenth(progress.step, progress.steps) != _tenth(
            progress.step - 1, progress.steps
        ):
            self.line(text)


class Reporter:
    """Reports a run to the caller's callbacks, to the log and, if ``verbose``, on stderr.

    ``verbose`` is 0 for silence, 1 for phases and progress, 2 for a line after every step. The log has phases and results
    at the level INFO, steps at DEBUG.
    """

    def __init__(self, callbacks: Callbacks, verbose: int = 0) -> None:
        if not isinstance(callbacks, Callbacks):
            raise UsageError(
                f"callbacks cannot be {callbacks!r}.",
                "As in Callbacks(on_step=print): from filmtransfer import Callbacks.",
            )
        self._user_callbacks = callbacks
        self._lines = ProgressLines(sys.stderr, verbose > 1) if verbose else None
        self._began = time.monotonic()
        observed = (
            self._lines is not None or callbacks.on_step is not None or logger.isEnabledFor(logging.DEBUG)
        )
        self.callbacks = replace(
            callbacks, on_phase=self._on_phase, on_step=self._on_step if observed else None
        )

    def finish(self, result: str) -> None:
        """Report what the run has led to."""
        self._say(f"{result} ({duration(time.monotonic() - self._began)})")

    def _say(self, text: str) -> None:
        logger.info(text)
        if self._lines is not None:
            self._lines.line(text)

    def _on_phase(self, name: str) -> None:
        self._say(name)
        self._user_callbacks.phase(name)

    def _on_step(self, progress: Progress) -> None:
        logger.debug("fine-tuning %s", describe_step(progress))
        if self._lines is not None:
            self._lines.on_step(progress)
        if self._user_callbacks.on_step is not None:
            self._user_callbacks.on_step(progress)


def describe_step(progress: Progress) -> str:
    """Return the state of a run after a step in one line."""
    return (
        f"step {progress.step}/{progress.steps}  loss {progress.loss:.3f}  accuracy {progress.accuracy:.0%}"
        f"  {duration(progress.seconds_left)} left"
    )


def _tenth(step: int, steps: int) -> int:
    return LINES * step // max(steps, 1)
