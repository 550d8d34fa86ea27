"""Run all runs of a recipe that have no result yet, on local workers or on a Ray cluster.

Only this process writes results. A worker that dies loses one run, which is tried again on another worker. A run that
fails because of its input (missing data, too few images) is reported and not tried again; the sweep continues.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ..errors import FitError
from .methods import METHODS
from .recipe import Run
from .results import Results, ResultsWriter, open_results, read_results
from .rows import Row, RunResult

TRIES = 3


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended: with a result, with an error of the user (final), or with one that another try may not have."""

    run: Run
    result: RunResult | None = None
    error: str = ""
    final: bool = False


class SweepWorkers(Protocol):
    """The processes or machines that compute runs."""

    slots: int

    def start(self, run: Run) -> None:
        """Start a run; at most ``slots`` may be started at the same time."""

    def next(self) -> RunOutcome:
        """Wait for the next run to end."""
        ...

    def close(self) -> None:
        """End all workers and discard unfinished runs."""


@dataclass
class SweepProgress:
    """The progress of a sweep."""

    total: int
    done: int  # with a result, old and new
    new: int = 0
    failed: int = 0
    seconds: float = 0.0
    running: list[str] = field(default_factory=list)  # the names of the runs that are being computed
    started: str = ""  # the run that has just been started
    last: str = ""  # the run that has just ended, and how

    @property
    def seconds_left(self) -> float | None:
        """Estimate the remaining time from the runs so far; None before the first one ends."""
        finished = self.new + self.failed
        remaining = self.total - self.done - self.failed
        return self.seconds / finished * remaining if finished else None


@dataclass
class SweepResult:
    """The rows of a sweep's runs, the errors of failed runs by name, and notes for the user."""

    rows: list[Row] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def run_sweep(
    runs: Iterable[Run],
    file: Path,
    make_workers: Callable[[], SweepWorkers],
    on_progress: Callable[[SweepProgress], None] = lambda _: None,
) -> SweepResult:
    """Compute the runs without a result in ``file``, and return the rows of all ``runs``."""
    wanted = {run.key: run for run in runs}
    with open_results(file) as writer:
        earlier = read_results(file)
        waiting = deque(run for key, run in wanted.items() if key not in earlier.rows)
        progress = SweepProgress(len(wanted), len(wanted) - len(waiting))
        on_progress(progress)
        if waiting:
            workers = make_workers()
            try:
                _work(waiting, workers, writer, progress, on_progress)
            finally:
                workers.close()
    return collect_rows(wanted.values(), read_results(file))


def collect_rows(runs: Iterable[Run], results: Results) -> SweepResult:
    """Return the rows of ``runs`` among the results, in the order of ``runs``."""
    collected = SweepResult(notes=list(results.notes))
    for run in runs:
        if run.key in results.rows:
            collected.rows.append(results.rows[run.key])
        elif run.key in results.failures:
            collected.failures[str(run)] = results.failures[run.key]["error"]
    return collected


def differing_settings(runs: Iterable[Run], rows: Iterable[Row]) -> dict[str, list[object]]:
    """Return the settings of ``rows`` that no run has, with their values: what other results were computed with."""
    wanted: dict[str, list[object]] = {}
    for run in runs:
        for name, value in run.settings.items():
            wanted.setdefault(name, []).append(value)
    differing: dict[str, list[object]] = {}
    for row in rows:
        of_method = METHODS.get(str(row["settings"].get("method")), {})
        for name, value in row["settings"].items():
            if name in of_method:
                continue
            if value not in wanted.get(name, []) and value not in differing.setdefault(name, []):
                differing[name].append(value)
    return {name: values for name, values in differing.items() if values}


def _work(
    waiting: deque[Run],
    workers: SweepWorkers,
    writer: ResultsWriter,
    progress: SweepProgress,
    on_progress: Callable[[SweepProgress], None],
) -> None:
    """Keep all workers busy until every run has ended."""
    began = time.monotonic()
    tries: dict[str, int] = {}
    while waiting or progress.running:
        while waiting and len(progress.running) < workers.slots:
            run = waiting.popleft()
            tries[run.key] = tries.get(run.key, 0) + 1
            workers.start(run)
            progress.running.append(str(run))
            progress.started, progress.last = str(run), ""
            on_progress(progress)
        outcome = workers.next()
        run = outcome.run
        progress.running.remove(str(run))
        progress.started = ""
        if outcome.result is not None:
            writer.write_result(run, outcome.result)
            progress.new, progress.done = progress.new + 1, progress.done + 1
            progress.last = f"{run}: {100 * outcome.result['accuracy']:.1f}%"
        elif not outcome.final and tries[run.key] < TRIES:
            waiting.append(run)
            progress.last = f"{run}: {outcome.error} Trying again."
        else:
            writer.write_failure(run, outcome.error)
            progress.failed += 1
            progress.last = f"{run}: failed: {outcome.error}"
        progress.seconds = time.monotonic() - began
        on_progress(progress)


def attempt_run(run: Run, root: Path) -> RunOutcome:
    """Compute a run in a worker; errors become part of the outcome."""
    from .run import compute_result

    try:
        return RunOutcome(run, result=compute_result(run.settings, root))
    except FitError as error:
        return RunOutcome(run, error=f"{error.message} {error.hint}".strip(), final=True)
    except Exception as error:  # out of memory, a damaged disk: another try may succeed
        return RunOutcome(run, error=f"{type(error).__name__}: {error}")
