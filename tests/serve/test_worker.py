"""Workers, as processes and in this process, on a real store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from filmtransfer.serve.store import ProjectId, Store, StoreLocation, StoreUnavailableError, Training
from filmtransfer.serve.worker import Worker, main

from . import updates
from .service_process import until
from .updates import backbone, photo

OPTIONS = {"steps": 2, "image_size": 32}
LONG = {"steps": 1000, "image_size": 32}


@pytest.fixture
def location(tmp_path: Path) -> StoreLocation:
    (tmp_path / "objects").mkdir()
    return StoreLocation(f"sqlite:///{tmp_path}/fit.db", f"file://{tmp_path}/objects")


@pytest.fixture
def store(location) -> Iterator[Store]:
    opened = Store.open(location)
    yield opened
    opened.close()


def a_project(store: Store, classes: int = 3, shots: int = 3) -> ProjectId:
    project = store.projects.resolve(store.users.create("someone")[0].id)
    for c in range(classes):
        row = store.classes.add(project, f"class {c}")
        for i in range(shots):
            store.photos.add(project, row.id, photo(c, 10 * c + i), b"small", "image/png")
    return project


def ended(store: Store, training: Training) -> Training:
    return until(lambda: (t := store.trainings.get(training.project, training.id)).ended and t)


@pytest.fixture
def started(location) -> Iterator[Callable[..., subprocess.Popen]]:
    """Return a function that starts workers; they are killed at the end of the test."""
    running: list[subprocess.Popen] = []

    def start(lease: float = 30) -> subprocess.Popen:
        arguments = [
            "--database",
            location.database,
            "--objects",
            location.objects,
            "--lease",
            str(lease),
            "--poll",
            "0.1",
        ]
        process = subprocess.Popen(
            [sys.executable, "-m", "filmtransfer.serve.worker", *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ), text=True,
        )  # fmt: skip
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


@pytest.mark.process(seconds=25)
def test_a_worker_publishes_dies_is_replaced_and_stops(store, started):
    """A worker publishes and is killed; another one continues, stops for a cancellation, and ends with its parent."""
    project = a_project(store)
    first = started(lease=2)
    assert "is ready" in first.stdout.readline()
    training = store.trainings.request(project, OPTIONS)
    assert ended(store, training).state == "done"
    newest, older = store.versions.all(project)
    assert newest.current
    assert (older.summary["stage"], newest.summary["stage"]) == ("first", "tuned")
    assert {one["id"] for one in newest.summary["photos"]} == {one.id for one in store.photos.all(project)}
    assert newest.summary["class_ids"] == {one.name: one.id for one in store.classes.all(project)}
    events = store.trainings.events(project, training.id)
    assert [e.kind for e in events] == ["version", "progress", "progress", "version", "end"]
    assert events[0].data.keys() == {"number", "stage", "estimate", "accuracy", "low", "high", "bytes"}
    assert events[1].data.keys() == {"step", "steps", "loss", "accuracy", "seconds_left"}
    assert events[-1].data["state"] == "done"
    member = updates.engine(32).member(store.versions.content(project, newest.number))
    assert member.predictor.classes == ["class 0", "class 1", "class 2"]

    long = store.trainings.request(project, LONG)
    until(lambda: any(e.kind == "progress" for e in store.trainings.events(project, long.id)))
    owner = store.trainings.get(project, long.id).worker
    second = started(lease=2)
    assert "is ready" in second.stdout.readline()
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: store.trainings.get(project, long.id).worker != owner)
    taken = len(store.trainings.events(project, long.id))
    until(lambda: any(e.kind == "progress" for e in store.trainings.events(project, long.id, taken)))

    store.trainings.cancel(project, long.id)
    stages = [version.summary["stage"] for version in store.versions.all(project)]
    assert stages[0] == "first", "published versions remain"
    again = store.trainings.request(project, {"steps": 0, "image_size": 32})
    assert ended(store, again).state == "done", "it stopped the cancelled one, and claimed the next"
    assert store.trainings.get(project, long.id).state == "cancelled"
    assert [v.summary["stage"] for v in store.versions.all(project)][1:] == stages, "no late version"

    long = store.trainings.request(project, LONG)
    until(lambda: any(e.kind == "progress" for e in store.trainings.events(project, long.id)))
    second.stdin.close()  # as when its parent dies: it releases the training
    assert second.wait(20) == 0
    assert store.trainings.get(project, long.id).state == "waiting"


STUCK = """
import os, sys, time
from filmtransfer.serve import worker
from filmtransfer.serve.store import StoreFullError
from filmtransfer.serve.store.trainings import TrainingRepository

def train_user(*_, **__):
    print("it computes", flush=True)
    while True:
        time.sleep(1)  # a computation that does not reach its next step

def release(*_):
    raise StoreFullError("The disk is full.")

worker.train_user = train_user
if os.environ["DISK"] == "full":
    TrainingRepository.release = release
sys.exit(worker.main(sys.argv[1:]))
"""


@pytest.mark.process(seconds=25)
@pytest.mark.parametrize("disk", ["usual", "full"])
def test_a_worker_that_computes_returns_its_training_before_it_ends(store, location, disk):
    """It does not wait for the next step, which may take long; the lease of a killed one would delay the training."""
    project = a_project(store)
    training = store.trainings.request(project, LONG)
    arguments = ["--database", location.database, "--objects", location.objects, "--lease", "1000", "--alone"]
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK, *arguments],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "DISK": disk},
    )  # fmt: skip
    try:
        assert "is ready" in process.stdout.readline()
        assert "it computes" in process.stdout.readline()
        assert store.trainings.get(project, training.id).state == "running"
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert store.trainings.get(project, training.id).state == ("running" if disk == "full" else "waiting")
    assert disk == "full" or store.trainings.claim("another", 10).id == training.id


@pytest.fixture
def worker(store) -> Worker:
    return Worker(store, backbone(), name="here")


def fails(store: Store, worker: Worker, project: ProjectId, options: dict[str, Any] | None = None) -> str:
    training = store.trainings.request(project, options or OPTIONS)
    assert worker.run_next()
    end = store.trainings.get(project, training.id)
    assert end.state == "failed"
    assert store.trainings.events(project, training.id)[-1].data == {
        "state": "failed",
        "message": end.message,
    }
    assert store.versions.current(project) is None
    return end.message


def test_errors_of_the_user_fail_with_a_reason(store, worker, capfd):
    for project, present in (
        (a_project(store, 0), "no class has photos"),
        (a_project(store, 2, 0), "no class has photos"),
        (a_project(store, 1), "only one class has photos"),
    ):
        message = fails(store, worker, project)
        assert f"at least two classes; {present}. Add a few photos" in message
    project = a_project(store)
    row = store.classes.add(project, "mine")
    store.photos.add(project, row.id, b"nonsense", b"small", "image/png")
    assert "photo 1 of mine: this is not an image" in fails(store, worker, project)
    assert "no option 'colour'" in fails(store, worker, a_project(store), {"colour": 1})
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""
    assert not worker.run_next(), "nothing is left"


def test_an_unexpected_error_fails_without_its_details(store, worker, monkeypatch, capfd):
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("filmtransfer.serve.worker.train_user", broken)
    message = fails(store, worker, a_project(store))
    assert message == "An unexpected error occurred (RuntimeError). Try again."
    assert "secret detail" in capfd.readouterr().err, "the log has it"


def test_deleting_the_user_ends_the_training(store, worker, monkeypatch):
    project = a_project(store)
    real = store.versions.publish

    def leave(*what: Any, **more: Any) -> Any:
        store.users.delete(store.users.all()[0].id)
        return real(*what, **more)

    monkeypatch.setattr(store.versions, "publish", leave)
    store.trainings.request(project, OPTIONS)
    assert worker.run_next()
    assert store.users.all() == []


@pytest.mark.parametrize("late", [False, True])
def test_an_idle_worker_ends_and_has_claimed_nothing(store, worker, monkeypatch, late):
    """It ends after a training, but not while the store is unavailable; one that is queued then remains waiting."""
    project = a_project(store, 0)
    trainings = [store.trainings.request(project, OPTIONS)]  # it fails at once: there are no photos
    real, results = store.trainings.claim, []

    def claim(*what: Any) -> Any:
        results.append("away" if len(results) == 1 else real(*what))
        if results[-1] == "away":
            raise StoreUnavailableError("The database is away.")
        if results[-1] is None and late:
            trainings.append(store.trainings.request(project, OPTIONS))
        return results[-1]

    monkeypatch.setattr(store.trainings, "claim", claim)
    worker.poll, worker.idle = 0.001, 1e-9
    worker.run()
    assert [getattr(result, "id", result) for result in results] == [trainings[0].id, "away", None]
    assert [store.trainings.get(project, one.id).state for one in trainings] == ["failed", "waiting"][
        : 1 + late
    ]


@pytest.mark.slow
def test_the_worker_waits_for_an_unavailable_store(store, worker, monkeypatch, capfd):
    project = a_project(store)
    training = store.trainings.request(project, {"steps": 0, "image_size": 32})
    real, calls = store.trainings.claim, []

    def away(*what: Any) -> Any:
        calls.append(1)
        if len(calls) < 3:
            raise StoreUnavailableError("The database is away.")
        if len(calls) > 3:
            worker.stop()
            return None
        return real(*what)

    monkeypatch.setattr(store.trainings, "claim", away)
    worker.poll = 0.01
    worker.run()
    assert store.trainings.get(project, training.id).state == "done"
    assert capfd.readouterr().err.count("The database is away.") == 1


def test_invalid_arguments(location, capfd):
    assert main(["--database", location.database, "--backbone", "nothing", "--alone"]) == 2
    assert "nothing" in capfd.readouterr().err
