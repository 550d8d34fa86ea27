"""Workers that are killed, and a database that goes away and comes back, during a training."""

from __future__ import annotations

import multiprocessing
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from filmtransfer.serve import worker as module
from filmtransfer.serve.store import (
    ProjectId,
    Store,
    StoreFullError,
    StoreLocation,
    StoreUnavailableError,
    objects,
)
from filmtransfer.serve.worker import Worker

from . import dying_worker
from .service_process import until
from .store.conftest import files_of

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["tests.serve.dying_worker"])


def a_project(store: Store) -> ProjectId:
    project = store.projects.resolve(store.users.create("Ann")[0].id)
    for name in ("cat", "dog"):
        only = store.classes.add(project, name)
        for i in range(2):
            store.photos.add(project, only.id, f"{name} {i}".encode(), b"small", "image/png")
    return project


def stages(store: Store, project: ProjectId) -> list[str]:
    return [version.summary["stage"] for version in reversed(store.versions.all(project))]


@pytest.fixture
def _instant_training(monkeypatch):
    monkeypatch.setattr(module, "train_user", dying_worker.train)


@pytest.mark.process(seconds=15)
@pytest.mark.usefixtures("_instant_training")
def test_the_training_of_a_killed_worker_is_finished_once(tmp_path: Path, monkeypatch):
    """Whenever a worker dies, the next one completes the training: two versions, one end, no orphan."""
    for phase in dying_worker.PHASES:
        root = tmp_path / phase
        location = StoreLocation.of(root)
        store = Store.open(location)
        project = a_project(store)
        training = store.trainings.request(project, {})
        receiver, sender = SERVER.Pipe(duplex=False)
        process = SERVER.Process(target=dying_worker.work, args=(location, phase, sender))
        process.start()
        assert receiver.recv() == "ready"
        process.join()
        assert process.exitcode == -9, phase
        if phase != "last":
            assert store.trainings.get(project, training.id).state == "running", phase
            until(lambda store=store: store.trainings.has_claimable())  # its lease has expired
        Worker(store, None, name="second").run_next()
        assert store.trainings.get(project, training.id).state == "done", phase
        assert stages(store, project) == ["first", "tuned"], phase
        kinds = [event.kind for event in store.trainings.events(project, training.id)]
        assert kinds.count("version") == 2, phase
        assert kinds.count("end") == 1, phase
        assert kinds[-1] == "end", phase
        with monkeypatch.context() as patch:
            patch.setattr(objects, "MAX_WRITE_TIME", timedelta(0))
            store.objects.sweep()
        assert len(files_of(root / "objects")) == 4 * 2 + 2, phase  # photos with thumbnails, versions
        store.close()
        receiver.close()


@pytest.mark.process(seconds=8)
@pytest.mark.parametrize("phase", ["reading", "tuning"])
def test_a_training_survives_a_restart_of_the_database(cluster, tmp_path: Path, monkeypatch, phase: str):
    store = Store.open(StoreLocation(cluster.fresh(), str(tmp_path / "objects")))
    project = a_project(store)
    training = store.trainings.request(project, {})
    worker = Worker(store, None, name="only", poll=0.05)
    restart = threading.Timer(0.5, cluster.start)

    def stop_database() -> None:
        cluster.stop()
        restart.start()

    if phase == "reading":
        real = store.photos.all

        def read(*arguments):
            if cluster.process is not None and not restart.is_alive():
                monkeypatch.setattr(store.photos, "all", real)
                stop_database()
            return real(*arguments)

        monkeypatch.setattr(store.photos, "all", read)

    def train(images, labels, *, on_step, publish, **_):
        def on_step_without_database(progress):
            if phase == "tuning":
                stop_database()
            on_step(progress)

        dying_worker.train(images, labels, on_step=on_step_without_database, publish=publish)

    monkeypatch.setattr(module, "train_user", train)
    try:
        assert worker.run_next()
    finally:
        restart.join()
    assert store.trainings.get(project, training.id).state == "done"
    assert stages(store, project) == ["first", "tuned"]
    store.close()


@pytest.mark.usefixtures("_instant_training")
def test_a_lost_acknowledgement_publishes_nothing_twice(tmp_path: Path, monkeypatch):
    """The database has committed, but the connection is lost before the worker knows."""
    store = Store.open(StoreLocation.of(tmp_path))
    project = a_project(store)
    training = store.trainings.request(project, {})
    real, calls = store.versions.publish, []

    def publish(*arguments, **more):
        version = real(*arguments, **more)
        calls.append(version.number)
        if len(calls) % 2:
            raise StoreUnavailableError("The connection is lost.")
        return version

    monkeypatch.setattr(store.versions, "publish", publish)
    assert Worker(store, None, name="only", poll=0.001).run_next()
    assert calls == [1, 1, 2], (
        "the second attempt returns the first version; the training has ended with the last"
    )
    assert store.trainings.get(project, training.id).state == "done"
    assert stages(store, project) == ["first", "tuned"]
    assert len(files_of(tmp_path / "objects")) == 4 * 2 + 2
    store.close()


@pytest.mark.usefixtures("_instant_training")
def test_a_full_disk_loses_progress_but_no_training(tmp_path: Path, monkeypatch):
    store = Store.open(StoreLocation.of(tmp_path))
    project = a_project(store)
    training = store.trainings.request(project, {})

    def full(*_: object) -> None:
        raise StoreFullError("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(store.trainings, "add_event", full)
        assert Worker(store, None, name="only").run_next()
    assert store.trainings.get(project, training.id).state == "done"
    store.close()
