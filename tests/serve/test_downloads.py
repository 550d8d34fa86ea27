"""Downloads that are made by a child process: its result, its errors and its limits."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from filmtransfer.model import Update
from filmtransfer.serve import downloads
from filmtransfer.serve.settings import ServiceSettings
from filmtransfer.serve.store import ProjectId
from tests.serve import updates
from tests.serve.conftest import SETTINGS, RunningService, encoded
from tests.serve.service_process import until

JPEG = {"Content-Type": "image/jpeg"}
FILE = {"Content-Type": "application/octet-stream"}
KINDS = {
    "file": ("classifier-1.safetensors", "application/octet-stream"),
    "onnx": ("classifier-1.onnx", "application/octet-stream"),
    "web": ("classifier-1-web.zip", "application/zip"),
    "report": ("classifier-1-report.html", "text/html; charset=utf-8"),
}

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def anna(service, update_file):
    client = service.client("anna")
    client.post("/api/versions", content=update_file.read_bytes(), headers=FILE).raise_for_status()
    return client


@pytest.fixture
def fake(monkeypatch):
    """Return a function that chooses what the child does."""
    monkeypatch.setattr(downloads, "MODULE", "tests.serve.fake_download")
    monkeypatch.setattr(downloads, "ENVIRONMENT", (*downloads.ENVIRONMENT, "FAKE_DOWNLOAD"))
    return lambda action: monkeypatch.setenv("FAKE_DOWNLOAD", action)


@pytest.fixture
def limits(service, monkeypatch):
    """Return a function that changes limits of the service."""
    maker = service.app.state.service.downloads
    return lambda **changed: monkeypatch.setattr(maker, "settings", replace(SETTINGS, **changed))


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_has_a_name_and_a_type(anna, kind):
    answer = anna.get(f"/api/versions/1/{kind}")
    assert answer.status_code == 200
    name, media_type = KINDS[kind]
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
    assert answer.headers["content-type"] == media_type
    assert anna.get("/api/versions").json()["versions"][0]["files"][kind] == name
    if kind == "file":
        return
    arguments = json.loads(answer.text)
    assert arguments[0] == kind
    assert arguments[2:] == ["--seconds", "180", "--megabytes", "4000"]
    assert not Path(arguments[1]).exists(), "nothing is left"


@pytest.mark.usefixtures("fake")
def test_the_weights_of_the_service_are_used(service, anna, monkeypatch):
    monkeypatch.setattr(service.app.state.service.downloads, "weights", Path("own.pth"))
    assert json.loads(anna.get("/api/versions/1/onnx").text)[-2:] == ["--weights", "own.pth"]


@pytest.mark.parametrize(("exit_code", "status", "code"), [(3, 409, "conflict"), (5, 503, "unavailable")])
def test_an_error_of_the_child_is_shown(anna, fake, exit_code, status, code):
    fake(f"error:{exit_code}")
    answer = anna.get("/api/versions/1/web")
    assert answer.status_code == status
    assert answer.json()["error"] == {
        "code": code, "message": "It cannot be made.", "hint": "Do something else.",
    }  # fmt: skip


def test_the_details_of_an_unexpected_error_go_to_the_log(anna, fake, caplog):
    fake("die")
    answer = anna.get("/api/versions/1/onnx")
    assert answer.status_code == 503
    assert answer.json()["error"]["message"] == "The file could not be made."
    assert "fit export" in answer.json()["error"]["hint"]
    assert "secret detail" in caplog.text
    assert "secret detail" not in answer.text


def test_a_child_that_takes_too_long_is_stopped(anna, fake, limits, tmp_path):
    fake(f"sleep:{tmp_path}/pid")
    limits(max_download_seconds=3)
    answer = anna.get("/api/versions/1/onnx")
    assert answer.status_code == 503
    assert "within 3 s" in answer.json()["error"]["message"]
    if (tmp_path / "pid").exists():  # else the machine was too busy to start it
        assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


def test_a_child_is_stopped_when_the_client_leaves(service, anna, fake, tmp_path):
    fake(f"sleep:{tmp_path}/pid")
    with request_onnx(service, anna):
        pid = until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    until(lambda: not Path(f"/proc/{pid}").exists())


def test_a_client_that_leaves_does_not_wait_any_longer(service, anna, fake, tmp_path):
    fake(f"sleep:{tmp_path}/pid")
    turns, user = service.app.state.service.downloads.turns, user_of(anna)
    with request_onnx(service, anna):
        until(lambda: (tmp_path / "pid").exists())
        with request_onnx(service, anna):
            until(lambda: turns.requests(user) == 2)
        until(lambda: turns.requests(user) == 1)
        assert Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists(), "the other one goes on"
    until(lambda: turns.requests(user) == 0)


def test_another_user_waits_for_one_file_only(service, anna, update_file, fake, tmp_path):
    """A user with several requests has one turn before another user has the next; waiting for it is not too long."""
    assert ServiceSettings().max_download_wait > ServiceSettings().max_download_seconds
    service.add_user("rosa")
    rosa = service.client("rosa")
    rosa.post("/api/versions", content=update_file.read_bytes(), headers=FILE).raise_for_status()
    turns = service.app.state.service.downloads.turns
    fake(f"sleep:{tmp_path}/pid")
    ended: list[str] = []

    def get(who: str, client: httpx.Client, kind: str) -> None:
        client.get(f"/api/versions/1/{kind}")
        ended.append(who)

    requests = [("anna", anna, "onnx"), ("anna", anna, "web"), ("rosa", rosa, "onnx")]
    with ThreadPoolExecutor(3) as pool:
        for number, request in enumerate(requests, 1):
            pool.submit(get, *request)
            until(lambda n=number: turns.requests(user_of(anna)) + turns.requests(user_of(rosa)) == n)
        pid = until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        fake("")  # the others are made at once
        os.kill(int(pid), 9)
    assert ended == ["anna", "rosa", "anna"]


def test_the_child_has_no_credentials(anna, fake, monkeypatch):
    secrets = {"AWS_SECRET_ACCESS_KEY": "aws", "PGPASSWORD": "pg", "HF_TOKEN": "hf", "FIT_ANYTHING": "else"}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    fake("environment")
    environment = anna.get("/api/versions/1/onnx").json()
    assert set(environment) <= {*downloads.ENVIRONMENT, *downloads.SETTINGS}
    assert not set(environment) & set(secrets)
    assert environment["PATH"] == os.environ["PATH"]
    assert environment["OMP_NUM_THREADS"] == environment["HF_HUB_OFFLINE"] == "1"


def test_a_photo_that_is_deleted_meanwhile_is_left_out(service, anna, fake, monkeypatch):
    row = anna.post("/api/classes", json={"name": "meanwhile"}).json()["id"]
    for seed in range(2):
        anna.post(f"/api/classes/{row}/photos", content=encoded(0, seed), headers=JPEG).raise_for_status()
    photos = service.store.photos
    first, second = photos.all(service.store.projects.resolve(user_of(anna)))
    read = photos.thumbnail

    def delete_and_read(project: ProjectId, id: str) -> bytes:
        if id == first.id:
            photos.delete(project, id)
        return read(project, id)

    monkeypatch.setattr(photos, "thumbnail", delete_and_read)
    fake("thumbnails")
    answer = anna.get("/api/versions/1/report")
    assert answer.status_code == 200, answer.text
    assert json.loads(answer.text) == [f"{second.digest[:32]}.jpg"]


@contextmanager
def request_onnx(service: RunningService, client: httpx.Client) -> Iterator[None]:
    """Send a request, and close the connection afterwards without reading the response."""
    url = httpx.URL(service.url)
    with socket.create_connection((url.host, url.port)) as connection:
        lines = (
            "GET /api/versions/1/onnx HTTP/1.1",
            "Host: here",
            f"Authorization: {client.headers['authorization']}",
        )
        connection.sendall("\r\n".join((*lines, "", "")).encode())
        yield


def test_one_file_is_made_at_a_time(anna, fake, tmp_path):
    fake(f"alone:{tmp_path}/lock")
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda kind: anna.get(f"/api/versions/1/{kind}"), ("onnx", "web", "report")))
    assert [answer.status_code for answer in answers] == [200, 200, 200]


def test_waiting_is_limited(anna, fake, limits, tmp_path):
    """A request that does not get its turn in time, and one too many of the same user, are refused."""
    fake(f"sleep:{tmp_path}/pid")
    limits(max_download_seconds=600, max_download_wait=0.01, max_downloads_of_user=2)
    first: list[httpx.Response] = []
    thread = threading.Thread(target=lambda: first.append(anna.get("/api/versions/1/onnx")))
    thread.start()
    pid = until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    late = anna.get("/api/versions/1/report")
    assert (late.status_code, late.json()["error"]["code"]) == (503, "busy")
    assert int(late.headers["retry-after"]) > 0
    limits(max_download_seconds=600, max_downloads_of_user=1)
    refused = anna.get("/api/versions/1/report")
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many")
    os.kill(int(pid), 9)
    thread.join()
    assert first[0].status_code == 503


def test_a_missing_version_is_not_found_without_a_process(anna, monkeypatch):
    monkeypatch.setattr(downloads, "ChildProcess", pytest.fail)
    assert anna.get("/api/versions/99/onnx").status_code == 404


def test_metrics_count_downloads(anna, fake):
    anna.get("/api/versions/1/onnx").raise_for_status()
    fake("die")
    anna.get("/api/versions/1/report")
    lines = dict(line.rsplit(" ", 1) for line in anna.get("/metrics").text.splitlines())
    assert float(lines['fit_downloads_total{kind="onnx",result="made"}']) >= 1
    assert float(lines['fit_downloads_total{kind="report",result="failed"}']) >= 1


@pytest.mark.process(seconds=30)
def test_the_real_child_makes_a_report_of_the_stored_photos(service):
    """The report names the project, counts all photos of the training, and says that some have been deleted."""
    service.add_user("nora")
    nora = service.client("nora")
    photos = []
    update = updates.update(1, keep=True)
    row = nora.post("/api/classes", json={"name": "disc"}).json()["id"]
    for seed in range(2):
        sent = nora.post(f"/api/classes/{row}/photos", content=encoded(0, seed), headers=JPEG).json()
        photos.append(service.store.photos.get(service.store.projects.resolve(user_of(nora)), sent["id"]))
    digests = [*(photo.digest[:32] for photo in photos), *update.support.digests[2:]]
    update = replace(update, support=replace(update.support, digests=digests))
    nora.post("/api/versions", content=update.to_bytes(), headers=FILE).raise_for_status()
    nora.patch(f"/api/projects/{nora.get('/api/me').json()['project']}", json={"name": "Pets & <b>"})
    page = nora.get("/api/versions/1/report")
    assert page.status_code == 200, page.text
    assert "Pets &amp; &lt;b&gt;, version 1" in page.text
    assert "7 of the training photos have been deleted since" in page.text
    assert page.text.count("data:image/jpeg") == 2


def user_of(client) -> str:
    return str(client.get("/api/me").json()["id"])


def test_a_version_without_statistics_has_no_report(service):
    service.add_user("otto")
    otto = service.client("otto")
    content = replace(updates.update(2), support=None).to_bytes()
    assert Update.from_bytes(content).support is None
    otto.post("/api/versions", content=content, headers=FILE).raise_for_status()
    answer = otto.get("/api/versions/1/report")
    assert answer.status_code == 409
    assert "keeps no statistics, so there can be no report" in answer.json()["error"]["message"]
