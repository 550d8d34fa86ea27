"""No room, no database, a bug of ours: said with the status that fits, and over when it is over."""

from __future__ import annotations

import errno
import logging
import os

import pytest

from tests.serve.conftest import SETTINGS, encoded, tried
from tests.serve.postgres import cluster  # noqa: F401

JPEG = {"Content-Type": "image/jpeg"}


@pytest.fixture(scope="module")
def anna(service):
    return service.client("anna")


def test_a_full_disk(service, anna, update_file, monkeypatch):
    shelf = anna.post("/api/classes", json={"name": "full"}).json()["id"]
    path = f"/api/classes/{shelf}/photos"
    assert anna.post(path, content=encoded(0, 1), headers=JPEG).status_code == 201
    real = os.write

    def full(handle: int, content: bytes) -> int:
        if "objects" in os.readlink(f"/proc/self/fd/{handle}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(handle, content)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        refused = anna.post(path, content=encoded(0, 2), headers=JPEG)
        assert refused.status_code == 507
        assert refused.json()["error"]["code"] == "storage_full"
        file = {"Content-Type": "application/octet-stream"}
        assert anna.post("/api/versions", content=update_file.read_bytes(), headers=file).status_code == 507
    assert len(anna.get("/api/photos", params={"class_id": shelf}).json()["photos"]) == 1
    assert anna.get("/api/me").json()["current"] is None
    assert anna.post(path, content=encoded(0, 2), headers=JPEG).status_code == 201  # room again
    assert service.store.users.usage(anna.get("/api/me").json()["id"]).photos == 2


def test_a_database_that_goes_and_comes_back(engine, tmp_path, cluster, caplog):  # noqa: F811
    for found in tried(tmp_path, engine, SETTINGS, cluster.fresh()):
        found.add_user("anna")
        anna = found.client("anna")
        shelf = anna.post("/api/classes", json={"name": "kept"}).json()["id"]
        path = f"/api/classes/{shelf}/photos"
        photo = anna.post(path, content=encoded(0, 1), headers=JPEG).json()
        cluster.stop()
        try:
            for answer in (
                anna.get("/healthz"),
                anna.get("/api/me"),
                anna.post(path, content=encoded(0, 2), headers=JPEG),
                anna.get(f"/api/photos/{photo['id']}"),
            ):
                assert answer.status_code == 503
                assert answer.headers["retry-after"] == "5"
                assert answer.json()["error"]["code"] == "store_gone"
                assert "127.0.0.1" not in answer.text  # where the database stands is nobody's business
            assert "127.0.0.1" in caplog.text
            assert "fit_trainings_waiting NaN" in anna.get("/metrics").text
        finally:
            cluster.start()
        assert anna.get("/healthz").status_code == 200
        assert anna.get("/api/photos").json() == {"photos": [photo]}
        assert anna.get(f"/api/photos/{photo['id']}").content == encoded(0, 1)
        assert anna.post(path, content=encoded(0, 2), headers=JPEG).status_code == 201


def test_a_bug_is_said_without_its_inside(service, anna, monkeypatch, caplog):
    def broken(*_: object) -> None:
        raise RuntimeError("the inside of things")

    monkeypatch.setattr(service.store.classes, "all", broken)
    with caplog.at_level(logging.INFO, "filmtransfer.serve"):
        answer = anna.get("/api/classes")
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "bug"
    assert "inside of things" not in answer.text
    assert "Traceback" not in answer.text
    name = answer.headers["x-request-id"]
    assert name in answer.json()["error"]["hint"]
    assert name in caplog.text  # and there the traceback is
    assert "the inside of things" in caplog.text


def test_a_full_queue_is_said_to_be_busy(service, anna, update_file, monkeypatch):
    from filmtransfer.serve.engine.batcher import QueueFullError

    file = {"Content-Type": "application/octet-stream"}
    anna.post("/api/versions", content=update_file.read_bytes(), headers=file).raise_for_status()

    def full(*_: object) -> None:
        raise QueueFullError("Too many images are waiting.", "Try again in a second.")

    monkeypatch.setattr(service.app.state.service.batcher, "submit", full)
    answer = anna.post("/api/predictions", content=encoded(0, 1), headers=JPEG)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["error"]["code"] == "busy"


def test_nothing_of_a_request_that_is_secret_is_in_the_log(service, anna, caplog):
    with caplog.at_level(logging.INFO, "filmtransfer.serve"):
        anna.get("/api/photos", params={"class_id": "secret-id"})
    assert " GET /api/photos 404 " in caplog.text
    assert service.tokens["anna"] not in caplog.text
    assert "secret-id" not in caplog.text
