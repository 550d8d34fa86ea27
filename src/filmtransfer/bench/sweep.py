"""A sweep: all runs of a recipe that are not on file yet, on workers of this machine or on a Ray cluster.

Only this process writes results; a worker that dies takes one run with it, which is tried again elsewhere. A run
that fails for a reason a person has to mend (missing data, too few images) is reported and not tried again;
the rest of the sweep goes on.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ..errors import FitError
from .recipe import Run
from .results import Results, open_results, read_results

TRIES = 3


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended: with a result, with a mistake of the user's (final), or with an accident."""

    run: Run
    result: dict[str, Any] | None = None
    error: str = ""
    final: bool = False


class SweepWorkers(Protocol):
    """Where runs are computed."""

    slots: int

    def start(self, run: Run) -> None: ...
    def next(self) -> RunOutcome: ...
    def close(self) -> None: ...


@dataclass
class SweepProgress:
    """How far a sweep is."""

    total: int
    done: int  # on file, old and new
    new: int = 0
    failed: int = 0
    seconds: float = 0.0
    last: str = ""

    @property
    def seconds_left(self) -> float | None:
        """By the pace so far; None before the first run is done."""
        finished = self.new + self.failed
        left = self.total - self.done - self.failed
        return self.seconds / finished * left if finished else None


@dataclass
class SweepResult:
    """What a sweep leaves: the rows of its runs, what failed, and what to tell the user."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def run_sweep(
    runs: Iterable[Run],
    file: Path,
    make_workers: Callable[[], SweepWorkers],
    watch: Callable[[SweepProgress], None] | None = None,
) -> SweepResult:
    """Compute what is missing in ``file``, and give all rows of ``runs``."""
    wanted = {run.key: run for run in runs}
    with open_results(file) as writer:
        before = read_results(file)
        waiting = deque(run for key, run in wanted.items() if key not in before.rows)
        progress = SweepProgress(len(wanted), len(wanted) - len(waiting))
        watch = watch or (lambda _: None)
        watch(progress)
        began = time.monotonic()
        if waiting:
            workers = make_workers()
            try:
                _work(waiting, workers, writer, progress, watch, began)
            finally:
                workers.close()
    return collect_rows(wanted.values(), read_results(file))


def collect_rows(runs: Iterable[Run], found: Results) -> SweepResult:
    """The rows of ``runs`` that are on file, in their order."""
    made = SweepResult(notes=list(found.notes))
    for run in runs:
        if run.key in found.rows:
            made.rows.append(found.rows[run.key])
        elif run.key in found.failures:
            made.failures[str(run)] = found.failures[run.key]["error"]
    return made


def _work(
    waiting: deque[Run],
    workers: SweepWorkers,
    writer: Any,
    progress: SweepProgress,
    watch: Callable[[SweepProgress], None],
    began: float,
) -> None:
    tries: dict[str, int] = {}
    running = 0
    while waiting or running:
        while waiting and running < workers.slots:
            run = waiting.popleft()
            tries[run.key] = tries.get(run.key, 0) + 1
            workers.start(run)
            running += 1
        outcome = workers.next()
        running -= 1
        run = outcome.run
        if outcome.result is not None:
            writer.result(run, outcome.result)
            progress.new, progress.done = progress.new + 1, progress.done + 1
            progress.last = f"{run}: {100 * outcome.result['accuracy']:.1f}%"
        elif not outcome.final and tries[run.key] < TRIES:
            waiting.append(run)
            progress.last = f"{run}: {outcome.error} Trying again."
        else:
            writer.failure(run, outcome.error)
            progress.failed += 1
            progress.last = f"{run}: failed: {outcome.error}"
        progress.seconds = time.monotonic() - began
        watch(progress)


def attempt_run(run: Run, root: Path) -> RunOutcome:
    """What a worker does with a run."""
    from .run import compute_result

    try:
        return RunOutcome(run, result=compute_result(run.settings, root))
    except FitError as error:
        return RunOutcome(run, error=f"{error.message} {error.hint}".strip(), final=True)
    except Exception as error:  # out of memory, a damaged disk: another try may go well
        return RunOutcome(run, error=f"{type(error).__name__}: {error}")
