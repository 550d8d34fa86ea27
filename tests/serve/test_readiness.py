"""GET /readyz: whether a process can serve requests now."""

from __future__ import annotations

import shutil
from collections import namedtuple

import pytest

from filmtransfer.serve import readiness
from filmtransfer.serve.readiness import Readiness
from filmtransfer.serve.store import StoreUnavailableError
from tests.serve.conftest import SETTINGS, run_service

NAMES = {"store", "space", "engine", "workers", "running"}
Disk = namedtuple("Disk", "total used free")


@pytest.fixture
def checked(service, monkeypatch):
    """Return a function that returns the status and the names of the checks that failed."""
    monkeypatch.setattr(readiness, "CACHE_SECONDS", 0)
    client = service.client(None)

    def check() -> tuple[int, set[str]]:
        service.app.state.service.readiness._expires = 0
        response = client.get("/readyz")
        checks = response.json()["checks"]
        assert set(checks) == NAMES
        failed = {name for name, passed in checks.items() if not passed}
        if failed:
            assert response.headers["retry-after"] == "5"
            error = response.json()["error"]
            assert error["code"] == "not_ready"
            assert all(name in error["message"] for name in failed)
        else:
            assert response.json()["status"] == "ready"
        assert str(service.store.database.url.database) not in response.text
        return response.status_code, failed

    return check


def test_a_running_service_is_ready(checked):
    assert checked() == (200, set())


def test_each_check_can_fail(service, checked, monkeypatch):
    shared = service.app.state.service
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: Disk(10**12, 10**12, SETTINGS.max_photo_bytes - 1))
        assert checked() == (503, {"space"})
        patch.setattr(shutil, "disk_usage", lambda path: Disk(10**12, 10**12, SETTINGS.max_photo_bytes))
        assert checked() == (200, set())
    with monkeypatch.context() as patch:
        patch.setattr(shared, "can_train", lambda: False)
        assert checked() == (503, {"workers"})
    with monkeypatch.context() as patch:
        patch.setattr(shared.batcher, "_closed", True)
        assert checked() == (503, {"engine"})
    shared.stopping.set()
    try:
        assert checked() == (503, {"running"})
    finally:
        shared.stopping.clear()
    folder = service.store.objects.folder
    away = shutil.move(folder.root, f"{folder.root}-away")
    try:
        assert checked() == (503, {"store", "space"})
    finally:
        shutil.move(away, folder.root)
    assert checked() == (200, set())


def test_the_checks_are_repeated_after_a_while_only():
    now, calls = 0.0, []

    def check() -> bool:
        calls.append(now)
        if len(calls) == 2:
            raise StoreUnavailableError("The database is away.")
        return True

    checks = Readiness({"store": check}, clock=lambda: now)
    assert [checks.results() for _ in range(3)] == [{"store": True}] * 3
    now = readiness.CACHE_SECONDS
    assert [checks.results() for _ in range(3)] == [{"store": False}] * 3
    now = 2 * readiness.CACHE_SECONDS
    assert checks.results() == {"store": True}
    assert len(calls) == 3


def failed(running) -> set[str]:
    running.app.state.service.readiness._expires = 0
    checks = running.client(None).get("/readyz").json()["checks"]
    return {name for name, passed in checks.items() if not passed}


def test_a_database_that_is_stopped_or_cannot_be_written_is_not_ready(engine, tmp_path, cluster):
    for running in run_service(tmp_path, engine, SETTINGS, cluster.fresh()):
        assert failed(running) == set()
        cluster.stop()
        try:
            assert failed(running) == {"store"}
        finally:
            cluster.start(default_transaction_read_only="on")
        try:
            assert failed(running) == {"store"}
        finally:
            cluster.stop()
            cluster.start()
        assert failed(running) == set()
