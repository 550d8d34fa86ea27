"""GET /readyz: whether a process can serve requests now."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections import namedtuple

import pytest

from filmtransfer.serve import readiness
from filmtransfer.serve.readiness import Check, Readiness
from filmtransfer.serve.store import StoreUnavailableError, database
from tests.serve.conftest import SETTINGS, run_service
from tests.serve.service_process import TIMEOUT, until

NAMES = {"store", "space", "engine", "workers", "running"}
Disk = namedtuple("Disk", "total used free")


@pytest.fixture
def _no_cache(monkeypatch):
    monkeypatch.setattr(readiness, "CACHE_SECONDS", 0)


@pytest.fixture
def checked(service, _no_cache):
    """Return a function that returns the status and the names of the checks that failed."""
    client = service.client(None)

    def check() -> tuple[int, set[str]]:
        response = client.get("/readyz")
        checks = response.json()["checks"]
        assert set(checks) == NAMES
        failed = {name for name, passed in checks.items() if not passed}
        if failed - {"space"}:
            assert response.headers["retry-after"] == "5"
            error = response.json()["error"]
            assert error["code"] == "not_ready"
            assert all(name in error["message"] for name in failed - {"space"})
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
        assert checked() == (200, {"space"}), "otherwise nobody could delete anything"
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

    async def results() -> list[dict[str, bool]]:
        return await asyncio.gather(*(checks.results() for _ in range(3))) + [await checks.results()]

    checks = Readiness({"store": check}, clock=lambda: now)
    assert asyncio.run(results()) == [{"store": True}] * 4
    now = readiness.CACHE_SECONDS
    assert asyncio.run(results()) == [{"store": False}] * 4
    now = 2 * readiness.CACHE_SECONDS
    assert asyncio.run(checks.results()) == {"store": True}
    assert len(calls) == 3


def test_a_check_that_hangs_fails_and_keeps_one_thread(monkeypatch):
    monkeypatch.setattr(readiness, "DEADLINE", 0.01)
    released, calls = threading.Event(), []

    def hang() -> bool:
        calls.append(1)
        return released.wait(TIMEOUT)

    check = Check(hang)
    assert [asyncio.run(check.passes()) for _ in range(3)] == [False] * 3
    assert len(calls) == 1
    released.set()
    until(lambda: asyncio.run(check.passes()))


def failed(running) -> set[str]:
    checks = running.client(None).get("/readyz").json()["checks"]
    return {name for name, passed in checks.items() if not passed}


@pytest.mark.usefixtures("_no_cache")
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


@pytest.mark.process(seconds=10)
@pytest.mark.usefixtures("_no_cache")
def test_a_database_that_hangs_is_not_ready_and_works_again(engine, tmp_path, cluster, monkeypatch):
    """Threads that wait for it neither keep others waiting nor stay for good."""
    monkeypatch.setattr(database, "WAIT", 1.0)
    monkeypatch.setattr(readiness, "DEADLINE", 0.2)
    for running in run_service(tmp_path, engine, SETTINGS, cluster.fresh()):
        running.add_user("anna")
        anna = running.client("anna")
        assert anna.get("/api/me").status_code == 200
        with cluster.hanging():
            assert running.client(None).get("/healthz").status_code == 503
            assert failed(running) == {"store"}
            assert anna.get("/api/me").status_code == 503
        until(lambda anna=anna: anna.get("/api/me").status_code == 200)
        until(lambda running=running: not failed(running))
        assert running.client(None).get("/healthz").status_code == 200
