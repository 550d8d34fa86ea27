"""``fit serve`` as a process with its worker, and its options."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from filmtransfer.budgets import MAX_CONNECTIONS_OF_ADDRESS, RESERVED_FILES, SPARE_CONNECTIONS
from filmtransfer.cli import main
from filmtransfer.processes import free_port
from filmtransfer.serve.log_file import LogFile, log_to
from filmtransfer.serve.server import ListenAddress, ServerConfig, connection_limits, default_user_token
from filmtransfer.serve.settings import ServiceSettings
from filmtransfer.serve.store import Store, StoreLocation
from filmtransfer.serve.supervisor import MODULE
from tests import guardian
from tests.serve.conftest import bearer, encoded
from tests.serve.service_process import Serving, user_of

TIMEOUT = 300.0  # seconds
JPEG = {"Content-Type": "image/jpeg"}


class ServeProcess:
    """One ``fit serve``, which ends with the test."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.out, self.err = folder / "out", folder / "err"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "filmtransfer", "serve", "folder", "--port", "0", *arguments],
                stdout=out, stderr=err, stdin=subprocess.DEVNULL, cwd=folder, start_new_session=True,
            )  # fmt: skip

    def until(self, event: str, condition: Callable[[], object]) -> object:
        deadline = time.monotonic() + TIMEOUT
        while not (value := condition()):
            if time.monotonic() > deadline or self.process.poll() is not None:
                pytest.fail(f"It did not happen: {event}\n{self.output()}")
            time.sleep(0.05)
        return value

    def output(self) -> str:
        logs = sorted((self.folder / "folder").glob("*.log"))
        return "\n".join(file.read_text() for file in (self.out, self.err, *logs))

    def workers(self) -> set[int]:
        files = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        children = [int(pid) for file in files for pid in file.read_text().split()]
        return {pid for pid in children if MODULE in guardian.command(pid)}

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(TIMEOUT)


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def is_running(client: httpx.Client, training: str) -> bool:
    return client.get(f"/api/trainings/{training}").json()["state"] == "running"


@pytest.fixture
def serve(tmp_path):
    started: list[ServeProcess] = []

    def start(*arguments: str) -> ServeProcess:
        started.append(ServeProcess(tmp_path, *arguments))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


@pytest.mark.process(seconds=30)
def test_acknowledged_photos_survive_a_kill_and_a_worker_trains(serve):
    """Photos survive a kill and a restart; then a training with two versions, workers that end and die, a clean end."""
    first = serve("--json", "--workers", "0")
    first.until("it is ready", lambda: first.out.read_text().rstrip().endswith("}"))
    about = json.loads(first.out.read_text())
    assert about["pid"] == first.process.pid
    kept: dict[str, bytes] = {}
    with httpx.Client(base_url=about["url"], headers=bearer(about["token"]), trust_env=False) as client:
        for kind, name in enumerate(("disc", "bars")):
            class_id = client.post("/api/classes", json={"name": name}).json()["id"]
            for i in range(3):
                content = encoded(kind, 10 * kind + i)
                made = client.post(f"/api/classes/{class_id}/photos", content=content, headers=JPEG)
                assert made.status_code == 201
                kept[made.json()["id"]] = content
    assert first.end(signal.SIGKILL) == -signal.SIGKILL

    second = serve("--worker-idle", "1", "--lease", "2")
    link = re.compile(r"The page is at (http://127\.0\.0\.1:\d+/)#token=(\S+)")
    second.until("it prints its link", lambda: link.search(second.out.read_text()))
    url, token = link.search(second.out.read_text()).groups()
    assert token == about["token"]
    assert second.err.read_text().startswith(
        "Starting the service in folder …\nLoading efficientnet_lite0 …\n"
    )
    with httpx.Client(base_url=url, headers=bearer(token), trust_env=False, timeout=TIMEOUT) as client:
        assert [row["photos"] for row in client.get("/api/classes").json()["classes"]] == [3, 3]
        for id, content in kept.items():
            assert client.get(f"/api/photos/{id}").content == content
        assert second.workers() == set(), "nothing is to be trained"
        training = client.post("/api/trainings", json={"steps": 1}).json()["id"]
        events = client.get(f"/api/trainings/{training}/events").text  # until the end of the training
        kinds = re.findall(r"^event: (\w+)$", events, re.M)
        assert kinds[0] == "version"
        assert kinds[-1] == "end"
        assert "progress" in kinds
        assert '"state": "done"' in events, events
        listed = client.get("/api/versions").json()["versions"]
        assert [(one["number"], one["stage"], one["current"]) for one in listed] == [
            (2, "tuned", True), (1, "first", False),
        ]  # fmt: skip
        check = client.get("/api/versions/2/check").json()
        assert {one["id"] for one in check["photos"]} == set(kept)
        asked = client.post("/api/predictions", content=encoded(1, 99), headers=JPEG).json()
        assert asked["probabilities"][0]["class"] == "bars"

        for kind, begin in (("onnx", b"\x08"), ("report", b"<!doctype html>")):
            made = client.get(f"/api/versions/2/{kind}")
            assert made.status_code == 200, made.text
            assert made.content.startswith(begin)
        assert "libtorch" not in Path(f"/proc/{second.process.pid}/maps").read_text(), "a child has made them"

        second.until("the idle worker ends", lambda: not second.workers())
        assert "A worker ended" not in second.out.read_text()
        training = client.post("/api/trainings", json={"steps": 1000}).json()["id"]
        second.until("another worker trains", lambda: is_running(client, training))
        (old,) = second.workers()
        os.kill(old, signal.SIGKILL)
        new = second.until("a third worker is there", lambda: second.workers() - {old})
        assert "A worker ended" in second.out.read_text()
    assert second.end(signal.SIGTERM) == 0
    assert second.out.read_text().rstrip().endswith("Ended.")
    assert all(has_ended(pid) for pid in new)
    assert token not in (second.folder / "folder" / "serve.log").read_text()
    for secret in ("admin-token", "me-token", "fit.db"):
        assert (second.folder / "folder" / secret).stat().st_mode & 0o077 == 0


@pytest.mark.long
@pytest.mark.process(seconds=25)
def test_a_database_that_hangs_does_not_keep_the_service_from_ending(cluster, tmp_path):
    serving = Serving(tmp_path / "s", "--database", cluster.fresh())
    try:
        about = serving.about()

        def request() -> None:
            with suppress(httpx.TransportError), user_of(about["url"], about["token"]) as user:
                user.get("/api/me")

        with user_of(about["url"], about["token"]) as client:
            assert client.get("/api/me").status_code == 200
            with cluster.hanging():
                requests = [threading.Thread(target=request) for _ in range(50)]  # more than threads respond
                for thread in requests:
                    thread.start()
                assert client.get("/healthz").status_code == 503
                assert serving.end() == 0
                for thread in requests:
                    thread.join()
    finally:
        serving.process.kill()
        serving.process.wait()


@pytest.fixture
def started(monkeypatch) -> list[ServerConfig]:
    """Replace the service, on Ray or not, by one that ends when it is ready; return the configurations."""
    configs: list[ServerConfig] = []

    def serve(config: ServerConfig, *arguments: Any) -> None:
        configs.append(config)
        arguments[-1](config.describe("http://127.0.0.1:1/", "secret"))

    monkeypatch.setattr("filmtransfer.serve.server.serve", serve)
    monkeypatch.setattr("filmtransfer.serve.ray.serve_on_ray", serve)
    return configs


def test_the_page_is_opened_with_and_without_ray(started, tmp_path, monkeypatch):
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert main(["serve", str(tmp_path)]) == 0
    assert opened == []
    for more in ([], ["--ray", "local"]):
        assert main(["serve", str(tmp_path), "--open", *more]) == 0
    assert opened == ["http://127.0.0.1:1/#token=secret"] * 2
    assert len(started) == 3


@pytest.mark.parametrize(
    ("created_by", "reason"),
    [("serve", "was replaced"), ("user add", "'fit serve' did not create the users")],
)
def test_a_link_without_a_token_is_explained(monkeypatch, capsys, tmp_path, created_by, reason):
    """After 'fit user token' for "me", and where the users were there before the first start."""
    folder = tmp_path / "a folder"

    def serve(config: ServerConfig, *arguments: Any) -> None:
        store = Store.open(config.location)
        token = default_user_token(store, config.folder)
        store.close()
        arguments[-1](config.describe("http://127.0.0.1:1/", token))

    monkeypatch.setattr("filmtransfer.serve.server.serve", serve)
    if created_by == "serve":
        assert main(["serve", str(folder)]) == 0
        assert "has no token" not in capsys.readouterr().out
        store = Store.open(StoreLocation.of(folder))
        user = store.users.all()[0].id
        store.close()
        assert main(["user", "token", user, "--folder", str(folder)]) == 0
    else:
        assert main(["user", "add", "Ann", "--folder", str(folder)]) == 0
    capsys.readouterr()
    assert main(["serve", str(folder)]) == 0
    _, line, *_ = capsys.readouterr().out.splitlines()
    assert line.startswith("The link has no token, because ")
    assert reason in line
    assert "http://127.0.0.1:1/#token=TOKEN" in line
    assert f"'fit user token ID' with --folder '{folder}'" in line


def test_the_defaults_of_the_command_are_those_of_the_server(started, tmp_path):
    assert main(["serve", str(tmp_path)]) == 0
    assert started == [ServerConfig(tmp_path)]


@pytest.mark.parametrize(
    ("options", "of_address"),
    [
        ([], 0),
        (["--host", "0.0.0.0", "--insecure-http"], 0),
        (["--host", "0.0.0.0", "--certificate", "x", "--key", "y"], MAX_CONNECTIONS_OF_ADDRESS),
        (["--host", "0.0.0.0", "--certificate", "x", "--key", "y", "--connections-per-address", "7"], 7),
        (["--connections-per-address", "7"], 7),
    ],
)
def test_addresses_are_limited_where_clients_connect_directly(started, tmp_path, options, of_address):
    assert main(["serve", str(tmp_path), "--max-connections", "10", *options]) == 0
    limits = connection_limits(started[0].settings, started[0].listen)
    assert (limits.max_connections, limits.max_connections_of_address) == (10, of_address)


def test_connections_leave_files_for_everything_else(monkeypatch):
    monkeypatch.setattr("filmtransfer.serve.server.raise_file_limit", lambda: 1024)
    assert (
        connection_limits(ServiceSettings(), ListenAddress()).max_connections
        == 1024 - RESERVED_FILES - SPARE_CONNECTIONS
    )


def refused(capsys, *arguments: str) -> tuple[int, str]:
    code = main(["serve", *arguments])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert captured.out == ""
    return code, captured.err


def test_other_machines_need_tls(capsys, tmp_path):
    code, error = refused(capsys, str(tmp_path), "--host", "0.0.0.0", "--port", "0")
    assert code == 2
    assert "--insecure-http" in error
    assert "--certificate" in error
    code, error = refused(capsys, str(tmp_path), "--host", "0.0.0.0", "--certificate", "x.pem")
    assert code == 2
    assert "--key" in error
    code, error = refused(capsys, str(tmp_path), "--certificate", "x.pem", "--key", "y.pem")
    assert code == 3
    assert "x.pem" in error


def test_a_port_that_is_taken(capsys, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, error = refused(capsys, str(tmp_path), "--port", str(taken.getsockname()[1]))
    assert code == 5
    assert "--port" in error
    assert refused(capsys, str(tmp_path), "--port", "99999")[0] == 2
    assert refused(capsys, str(tmp_path), "--host", "no.such.host.invalid")[0] == 2


def test_a_folder_that_cannot_be_written(capsys, tmp_path):
    (tmp_path / "file").write_text("x")
    code, error = refused(capsys, str(tmp_path / "file" / "folder"), "--port", str(free_port()))
    assert code == 3
    assert "cannot be written" in error


@pytest.mark.parametrize(
    ("arguments", "code", "hint"),
    [
        (("--rate", "often"), 2, "600/minute"),
        (("--max-photo-mb", "0"), 2, "0.001"),
        (("--admin-token-file", "nowhere"), 3, "nowhere"),
        (("--backbone", "nothing"), 2, "nothing"),
        (("--weights", "nothing.pth"), 4, "nothing.pth"),
        (("--database", "mysql://x"), 2, "sqlite:///"),
    ],
)
def test_invalid_options_are_refused(capsys, tmp_path, arguments, code, hint):
    exit_code, error = refused(capsys, str(tmp_path), "--port", "0", *arguments)
    assert (exit_code, hint in error) == (code, True), error


def test_a_short_admin_token_is_refused(capsys, tmp_path):
    (tmp_path / "token").write_text("secret\n")
    code, error = refused(capsys, str(tmp_path), "--port", "0", "--admin-token-file", str(tmp_path / "token"))
    assert code == 3
    assert "16 characters" in error
    assert "secret" not in error


def test_without_the_extra_the_error_names_it(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("filmtransfer.cli.serve.importlib.util.find_spec", lambda name: None)
    code, error = refused(capsys, str(tmp_path))
    assert code == 5
    assert "[serve]'" in error


def test_the_default_user_is_created_once_in_an_empty_store(tmp_path):
    location = StoreLocation.of(tmp_path)
    store = Store.open(location)
    token = default_user_token(store, tmp_path)
    assert token is not None
    assert [user.name for user in store.users.all()] == ["me"]
    assert default_user_token(store, tmp_path) == token
    store.users.new_token(store.users.all()[0].id)
    assert default_user_token(store, tmp_path) is None  # it was replaced
    assert len(store.users.all()) == 1
    store.close()


def test_logs_are_private_and_show_what_a_request_contains(tmp_path):
    before = os.umask(0o022)
    file = tmp_path / "serve.log"
    try:
        with ExitStack() as stack:
            log_to(file, stack)
            logger = logging.getLogger("filmtransfer.serve")
            (handler,) = logger.handlers
            logger.warning("refused: %s", "\x1b[2J\u202e")
            assert isinstance(handler, LogFile)
            handler.doRollover()
            logger.warning("another")
    finally:
        os.umask(before)
    rotated = tmp_path / "serve.log.1"
    assert rotated.read_text().endswith("refused: \\x1b[2J\\u202e\n")
    assert file.read_text().endswith("another\n")
    assert [one.stat().st_mode & 0o777 for one in (file, rotated)] == [0o600, 0o600]
