"""The supervisor with workers that do not train, hence start quickly: when they are started, end and are replaced."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from filmtransfer import processes
from filmtransfer.serve import supervisor as module
from filmtransfer.serve.store import ProjectId, Store, StoreLocation, StoreUnavailableError, Training
from filmtransfer.serve.supervisor import WorkerSupervisor

from .service_process import until

pytestmark = pytest.mark.process(seconds=5)

FOREVER = 1e6  # seconds


@pytest.fixture(autouse=True)
def _fast_fake_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MODULE", "tests.serve.fake_worker")
    monkeypatch.setattr(module, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(module, "PATIENCE", 0.2)
    monkeypatch.setattr(module, "MAX_DELAY", 0.1)
    monkeypatch.chdir(Path(__file__).parents[2])  # where 'python -m tests…' finds it


@pytest.fixture
def location(tmp_path: Path) -> StoreLocation:
    return StoreLocation(f"sqlite:///{tmp_path}/fit.db")


@pytest.fixture
def store(location: StoreLocation) -> Iterator[Store]:
    opened = Store.open(location)
    yield opened
    opened.close()


class Supervised:
    """A running supervisor, what it reported, and how often it looked at the queue."""

    def __init__(self, store: Store, supervisor: WorkerSupervisor, reports: list[str]) -> None:
        self.store, self.supervisor, self.reports = store, supervisor, reports
        self.polls = 0

    def pids(self) -> list[int]:
        return [slot.child.process.pid for slot in self.supervisor.slots if slot.child is not None]

    def request(self, project: ProjectId | None = None, **options: Any) -> Training:
        project = project or self.store.projects.resolve(self.store.users.create("someone")[0].id)
        return self.store.trainings.request(project, options)

    def now(self, training: Training) -> Training:
        return self.store.trainings.get(training.project, training.id)

    def ended(self, training: Training) -> Training:
        return until(lambda: (t := self.now(training)).ended and t)

    def poll(self) -> None:
        """Wait until it has looked at the queue a few times."""
        before = self.polls
        until(lambda: self.polls > before + 3)


@pytest.fixture
def supervise(
    store: Store, location: StoreLocation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Supervised]]:
    started: list[WorkerSupervisor] = []

    def start(
        count: int = 1, idle: float = FOREVER, lease: float = 60, arguments: tuple[str, ...] = ()
    ) -> Supervised:
        reports: list[str] = []
        options = ["--database", location.database, "--lease", str(lease), *arguments]
        supervisor = WorkerSupervisor(count, options, tmp_path, store, reports.append, idle)
        supervised, real = Supervised(store, supervisor, reports), store.trainings.has_claimable

        def counted() -> bool:
            supervised.polls += 1
            return real()

        monkeypatch.setattr(store.trainings, "has_claimable", counted)
        supervisor.start()
        started.append(supervisor)
        return supervised

    yield start
    for one in started:
        one.stop()
        assert all(slot.child is None for slot in one.slots)


def test_a_worker_starts_for_a_training_and_ends_when_idle(supervise):
    supervised = supervise(idle=0.3)
    supervised.poll()
    assert supervised.pids() == []
    first = supervised.ended(supervised.request())
    assert first.state == "done"
    until(lambda: not supervised.pids())
    supervised.poll()
    assert supervised.pids() == []
    second = supervised.ended(supervised.request(first.project))
    assert second.state == "done"
    assert second.worker != first.worker
    assert supervised.reports == []


def test_the_supervisor_does_not_wait_for_its_poll(supervise, monkeypatch):
    monkeypatch.setattr(module, "POLL_SECONDS", FOREVER)
    supervised = supervise()
    until(lambda: supervised.polls)
    supervised.supervisor.expect_training()
    (pid,) = until(supervised.pids)
    training = supervised.request()
    supervised.supervisor.wake()
    assert supervised.ended(training).worker == f"fake-{pid}"


def test_an_expected_training_starts_one_worker_once(supervise):
    supervised = supervise(idle=0.3, count=2)
    for _ in range(3):
        supervised.supervisor.expect_training()
    assert len(until(supervised.pids)) == 1
    until(lambda: not supervised.pids())
    supervised.poll()
    assert supervised.pids() == []


def test_another_worker_starts_when_a_training_waits(supervise):
    supervised = supervise(count=2)
    first = supervised.request(hold=True)
    until(lambda: supervised.now(first).state == "running")
    supervised.poll()
    assert len(supervised.pids()) == 1, "nothing waits"
    second, third = supervised.request(hold=True), supervised.request(hold=True)
    until(lambda: supervised.now(second).state == "running")
    assert supervised.now(second).worker != supervised.now(first).worker
    assert len(supervised.pids()) == 2
    assert supervised.now(third).state == "waiting"
    for training in (first, second, third):
        supervised.store.trainings.cancel(training.project, training.id)


def test_a_worker_that_dies_is_replaced_for_its_training(supervise):
    supervised = supervise(lease=0.5)
    training = supervised.ended(supervised.request(die=True))
    assert (training.state, training.message) == ("failed", "3 workers died during it.")
    assert len(supervised.reports) == 3
    assert all("A worker ended (something terrible)" in report for report in supervised.reports)

    held = supervised.request(training.project, hold=True)
    until(lambda: supervised.now(held).state == "running")
    owner = supervised.now(held).worker
    os.kill(int(owner.rpartition("-")[2]), signal.SIGKILL)
    until(lambda: supervised.now(held).worker not in (None, owner))
    supervised.store.trainings.cancel(held.project, held.id)


def test_workers_that_cannot_start_are_tried_one_after_the_other(supervise):
    supervised = supervise(count=3, arguments=("--nonsense",))
    training = supervised.request()
    until(lambda: len(supervised.reports) > 3)
    assert supervised.now(training).state == "waiting"
    assert all("unrecognized arguments: --nonsense" in report for report in supervised.reports)
    assert all("worker-1.log" in report for report in supervised.reports)


def test_without_an_idle_time_all_workers_run_from_the_start(supervise):
    supervised = supervise(count=2, idle=0)
    until(lambda: len(supervised.pids()) == 2)
    until(lambda: all(slot.ready for slot in supervised.supervisor.slots))
    before = supervised.pids()
    os.kill(before[0], signal.SIGTERM)
    until(lambda: len(set(supervised.pids()) - {before[0]}) == 2)
    assert before[1] in supervised.pids()
    assert len(supervised.reports) == 1
    assert supervised.polls == 0


def test_an_unavailable_store_is_reported_once(supervise, store, monkeypatch):
    real, calls = store.trainings.has_claimable, []

    def away() -> bool:
        calls.append(1)
        if len(calls) < 5:
            raise StoreUnavailableError("The database is away.", "Try again.")
        return real()

    monkeypatch.setattr(store.trainings, "has_claimable", away)
    supervised = supervise()
    assert supervised.ended(supervised.request()).state == "done"
    assert supervised.reports == ["No worker can be started now (The database is away. Try again.)."]


def test_without_workers_nothing_runs(supervise):
    supervised = supervise(count=0)
    supervised.supervisor.expect_training()
    supervised.supervisor.wake()
    assert supervised.polls == 0


def test_a_large_log_of_earlier_workers_is_renamed(supervise, tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "MAX_LOG_BYTES", 100)
    log = tmp_path / "worker-1.log"
    log.write_text("old\n" * 100)
    supervised = supervise()
    assert supervised.ended(supervised.request()).state == "done"
    assert "old" not in log.read_text()
    assert (tmp_path / "worker-1.log.1").read_text() == "old\n" * 100
    assert supervised.reports == []
