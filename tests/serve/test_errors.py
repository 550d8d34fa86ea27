"""A full disk, an unavailable database, an unexpected error: the right status, and recovery."""

from __future__ import annotations

import errno
import logging
import os

import pytest

from tests.serve.conftest import SETTINGS, encoded, run_service
from tests.serve.service_process import until

JPEG = {"Content-Type": "image/jpeg"}


@pytest.fixture(scope="module")
def anna(service):
    return service.client("anna")


def test_a_full_disk(service, anna, update_file, monkeypatch):
    class_id = anna.post("/api/classes", json={"name": "full"}).json()["id"]
    path = f"/api/classes/{class_id}/photos"
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
    assert len(anna.get("/api/photos", params={"class_id": class_id}).json()["photos"]) == 1
    assert anna.get("/api/me").json()["current"] is None
    assert anna.post(path, content=encoded(0, 2), headers=JPEG).status_code == 201  # the disk has space again
    assert service.store.users.usage(anna.get("/api/me").json()["id"]).photos == 2


def test_the_database_is_unavailable_for_a_while(engine, tmp_path, cluster, caplog):
    for running in run_service(tmp_path, engine, SETTINGS, cluster.fresh()):
        running.add_user("anna")
        anna = running.client("anna")
        class_id = anna.post("/api/classes", json={"name": "kept"}).json()["id"]
        path = f"/api/classes/{class_id}/photos"
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
                assert "127.0.0.1" not in answer.text  # the address of the database is not disclosed
            assert "127.0.0.1" in caplog.text
            assert "fit_trainings_waiting NaN" in anna.get("/metrics").text
        finally:
            cluster.start()
        until(lambda anna=anna: anna.get("/healthz").status_code == 200)  # its check is at most a second old
        assert anna.get("/api/photos").json() == {"photos": [photo]}
        assert anna.get(f"/api/photos/{photo['id']}").content == encoded(0, 1)
        assert anna.post(path, content=encoded(0, 2), headers=JPEG).status_code == 201


def test_an_unexpected_error_hides_its_details(service, anna, monkeypatch, caplog):
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
    assert name in caplog.text  # with the traceback
    assert "the inside of things" in caplog.text


def test_a_full_queue_is_busy(service, anna, update_file, monkeypatch):
    from filmtransfer.serve.engine.batcher import QueueFullError

    file = {"Content-Type": "application/octet-stream"}
    anna.post("/api/versions", content=update_file.read_bytes(), headers=file).raise_for_status()

    def full(*_: object) -> None:
        raise QueueFullError("Too many images are waiting.", "Try again in a second.")

    monkeypatch.setattr(service.app.state.service.batcher, "submit", full)
    answer = anna.post("/api/predictions", content=encoded(0, 1), headers=JPEG)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["error"]["code"] == "busy"


def test_the_log_contains_no_secrets(service, anna, caplog):
    with caplog.at_level(logging.INFO, "filmtransfer.serve"):
        anna.get("/api/photos", params={"class_id": "secret-id"})
    assert " GET /api/photos 404 " in caplog.text
    assert service.tokens["anna"] not in caplog.text
    assert "secret-id" not in caplog.text
