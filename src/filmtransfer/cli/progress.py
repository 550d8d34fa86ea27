"""What a long command is doing: named phases from the first second, the steps of fine-tuning, a word at Ctrl-C."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import TYPE_CHECKING

from ..formatting import capitalize
from ..training.phases import KEEPS_TRAINING
from .printing import SCREEN, SafeConsole

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from ..training.callbacks import Progress as StepProgress


class PhaseDisplay:
    """The current phase: a line that changes on a terminal, one line for each phase elsewhere."""

    def __init__(self, console: Console, bar: Progress | None) -> None:
        self.console, self.bar = console, bar
        self.current = ""
        self.task: TaskID | None = None

    def phase(self, name: str) -> None:
        """Show that a phase begins."""
        if name == self.current:
            return
        self.current = name
        if self.bar is None:
            self.console.print(f"{capitalize(name)} …", markup=False)
            return
        if self.task is not None:
            self.bar.remove_task(self.task)
        self.task = self.bar.add_task(capitalize(name), total=None, details="")

    def on_step(self, step: StepProgress) -> None:
        """Show the progress of fine-tuning; only a terminal has a line that can change."""
        if self.bar is None or self.task is None:
            return
        from ..training.progress import describe_step  # torch is imported by then

        self.bar.update(self.task, completed=step.step, total=step.steps, details=describe_step(step))

    def on_interrupt(self, number: int, frame: FrameType | None) -> None:
        """Say at once what Ctrl-C does, then raise KeyboardInterrupt."""
        if self.current in KEEPS_TRAINING:
            self.console.print(
                "Stopping: what was trained so far is kept. Press Ctrl-C again to end at once.", markup=False
            )
            self.current = ""  # the second Ctrl-C is an ordinary one
        signal.default_int_handler(number, frame)


@contextmanager
def phases(quiet: bool = False) -> Iterator[PhaseDisplay]:
    """Show the phases of a command on stderr while the block runs; nothing if ``quiet``."""
    console = SafeConsole(stderr=True, highlight=False, emoji=False, soft_wrap=True, quiet=quiet)
    if quiet or not console.is_terminal:
        with _interruptible(display := PhaseDisplay(console, None)):
            yield display
        return
    with _bar(console) as bar, _hidden_for_output(bar), _interruptible(display := PhaseDisplay(console, bar)):
        yield display


@contextmanager
def _hidden_for_output(bar: Progress) -> Iterator[None]:
    """Hide the bar whenever a printer prints."""

    @contextmanager
    def hidden() -> Iterator[None]:
        bar.stop()
        try:
            yield
        finally:
            bar.start()

    SCREEN.hidden = hidden
    try:
        yield
    finally:
        SCREEN.hidden = nullcontext


@contextmanager
def _interruptible(display: PhaseDisplay) -> Iterator[None]:
    """Let the display handle Ctrl-C, unless the signal is ignored or this is not the main thread."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    signal.signal(signal.SIGINT, display.on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _bar(console: Console) -> Progress:
    """Return rich's progress display: the phase, a bar, the steps if it has any, and the time it has taken."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[details]}", markup=False),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        redirect_stdout=sys.stdout.isatty(),  # what others print appears above the bar; a pipe gets its own
    )


@contextmanager
def progress_line() -> Iterator[Callable[[int, int, str], None]]:
    """Yield a callback that takes done, total and a description; it draws nothing without a terminal."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=SafeConsole(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, visible=False)
        yield lambda done, total, text: bar.update(
            task, completed=done, total=total, description=text, visible=True, refresh=True
        )
