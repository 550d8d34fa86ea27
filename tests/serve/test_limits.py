"""Limits on size, number and rate, content types, and unusual names."""

from __future__ import annotations

import json
import logging
import socket
import ssl
import threading
from contextlib import ExitStack, suppress
from dataclasses import replace
from http.client import HTTPResponse

import httpx
import numpy as np
import pytest
import safetensors.numpy

from filmtransfer.budgets import LINGER_BYTES
from filmtransfer.errors import UsageError
from filmtransfer.federated.keys import make_keys
from filmtransfer.model import Update
from filmtransfer.serve.errors import ApiError
from filmtransfer.serve.limits import PHOTOS, PREDICTIONS, VERSIONS, RateLimiter, Refusals
from filmtransfer.serve.server import ListenAddress
from filmtransfer.serve.settings import read_rate
from tests.serve.conftest import SETTINGS, UvicornThread, encoded, run_service

JPEG = {"Content-Type": "image/jpeg"}
FILE = {"Content-Type": "application/octet-stream"}


@pytest.fixture(scope="module")
def anna(service):
    return service.client("anna")


@pytest.fixture(scope="module")
def class_id(anna) -> str:
    return anna.post("/api/classes", json={"name": "limits"}).json()["id"]


def endless(sent: list[int]):
    """Yield an endless body, and record what was sent."""
    while True:
        sent.append(64_000)
        yield b"x" * 64_000


@pytest.mark.parametrize(
    "path", ["/api/classes/{}/photos", "/api/predictions", "/api/classes", "/api/trainings"]
)
def test_an_endless_body_is_refused_while_it_arrives(anna, class_id, path):
    sent: list[int] = []
    kind = JPEG if path.endswith(("photos", "predictions")) else {"Content-Type": "application/json"}
    answer = anna.post(path.format(class_id), content=endless(sent), headers=kind)
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "too_large"
    assert answer.headers["connection"] == "close"
    buffers = 10_000_000  # of the sockets on both sides
    assert sum(sent) < SETTINGS.max_photo_bytes + LINGER_BYTES + buffers


def test_a_body_with_a_too_large_content_length_is_not_read(service, anna, class_id):
    """The response arrives although nothing of the body was sent."""
    host, port = anna.base_url.host, anna.base_url.port
    with socket.create_connection((host, port)) as line:
        line.sendall(
            f"POST /api/classes/{class_id}/photos HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.tokens['anna']}\r\n"
            "Content-Type: image/jpeg\r\nContent-Length: 3000001\r\n\r\n".encode()
        )
        assert line.recv(1000).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("token", ["", "Authorization: Bearer nobody\r\n"])
def test_an_unauthenticated_client_is_refused_before_the_body(anna, class_id, token):
    host, port = anna.base_url.host, anna.base_url.port
    with socket.create_connection((host, port)) as line:
        line.sendall(
            f"POST /api/classes/{class_id}/photos HTTP/1.1\r\nHost: x\r\n{token}"
            "Content-Type: image/jpeg\r\nContent-Length: 1000\r\n\r\n".encode()
        )
        assert line.recv(1000).startswith(b"HTTP/1.1 401")


def test_a_refusal_keeps_the_connection_if_the_body_has_arrived(anna, class_id):
    """A refused client does not have to connect, and to do a TLS handshake, again."""
    head = f"POST /api/classes/{class_id}/photos HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
    with socket.create_connection((anna.base_url.host, anna.base_url.port)) as line:
        for arrived in (1000, 1000, 999):
            line.sendall(head.encode() + bytes(arrived))  # in one packet
            response = HTTPResponse(line)
            response.begin()
            assert json.loads(response.read())["error"]["code"] == "no_token"
            assert response.will_close == (arrived < 1000)


def test_a_photo_of_exactly_the_limit_is_accepted(anna, class_id):
    content = encoded(0, 3)
    padded = content + b"\0" * (SETTINGS.max_photo_bytes - len(content))
    assert anna.post(f"/api/classes/{class_id}/photos", content=padded, headers=JPEG).status_code == 201
    assert (
        anna.post(f"/api/classes/{class_id}/photos", content=padded + b"\0", headers=JPEG).status_code == 413
    )


@pytest.mark.slow
def test_a_client_that_pauses_or_disconnects(engine, tmp_path, caplog):
    settings = replace(SETTINGS, max_pause=0.2)
    for running in run_service(tmp_path, engine, settings):
        running.add_user("anna")
        anna = running.client("anna")
        class_id = anna.post("/api/classes", json={"name": "x"}).json()["id"]
        head = (
            f"POST /api/classes/{class_id}/photos HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {running.tokens['anna']}\r\n"
            "Content-Type: image/jpeg\r\nContent-Length: 1000\r\n\r\nsome"
        ).encode()
        address = (anna.base_url.host, anna.base_url.port)
        with socket.create_connection(address) as line:
            line.sendall(head)
            assert line.recv(1000).startswith(b"HTTP/1.1 408")
        with caplog.at_level(logging.INFO, "filmtransfer.serve"):
            socket.create_connection(address).close()
            with socket.create_connection(address) as line:
                line.sendall(head)
            while "client disconnected" not in caplog.text and "408" not in caplog.text:
                threading.Event().wait(0.01)
        assert "unexpected error" not in caplog.text
        assert anna.get("/api/photos").json() == {"photos": []}


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("POST", "/api/classes/{}/photos", "text/plain"),
        ("POST", "/api/classes/{}/photos", "multipart/form-data"),
        ("POST", "/api/predictions", "application/json"),
        ("POST", "/api/versions", "image/png"),
        ("POST", "/api/classes", "text/plain"),
        ("POST", "/api/classes", "application/x-www-form-urlencoded"),
        ("PATCH", "/api/classes/{}", "text/plain"),
        ("POST", "/api/trainings", "text/plain"),
        ("PUT", "/api/versions/current", "text/plain"),
    ],
)
def test_the_wrong_content_type(anna, class_id, method, path, kind):
    answer = anna.request(
        method, path.format(class_id), content=b'{"name": "x"}', headers={"Content-Type": kind}
    )
    assert answer.status_code == 415
    assert answer.json()["error"]["code"] == "bad_type"
    assert "Content-Type" in answer.json()["error"]["hint"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"name": 3}',
        b'{"name": "x", "more": 1}',
        b'{"name": ""}',
        b"\xff\xfe",
        b"[" * 9000,
    ],
)
def test_invalid_json_has_the_format_of_all_errors(anna, body):
    answer = anna.post("/api/classes", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422), answer.text
    assert set(answer.json()) == {"error"}
    assert set(answer.json()["error"]) == {"code", "message", "hint"}


@pytest.mark.parametrize("steps", [-1, 1001, 1.5, "10", True])
def test_invalid_steps_are_refused(anna, steps):
    answer = anna.post("/api/trainings", json={"steps": steps})
    assert answer.status_code == 422
    assert "steps" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "name",
    [
        "<script>alert(1)</script>",
        "../../etc/passwd",
        "C:\\con\\nul",
        '"; filename="x.exe',
        "'; DROP TABLE users; --",
        "{{7*7}} ${x} %s %00",
        "猫 🐈‍⬛ القط",
        "a/b/c",
        ".",
    ],
)
def test_unusual_names_are_accepted(service, anna, name):
    made = anna.post("/api/classes", json={"name": name})
    assert made.status_code == 201
    assert made.json()["name"] == name
    assert made.headers["content-type"] == "application/json"
    shown = anna.get("/api/classes").json()["classes"]
    assert name in [row["name"] for row in shown]
    user = service.client("admin").post("/api/users", json={"name": name})
    assert user.json()["name"] == name
    photo = anna.post(f"/api/classes/{made.json()['id']}/photos", content=encoded(1, 1), headers=JPEG).json()
    disposition = anna.get(f"/api/photos/{photo['id']}").headers["content-disposition"]
    assert disposition == f'inline; filename="photo-{photo["id"]}.jpg"'
    anna.delete(f"/api/classes/{made.json()['id']}").raise_for_status()


@pytest.mark.parametrize("name", ["  ", "a\nb", "a\0b", "x" * 101, "\ud800", "\u202eevil"])
def test_names_that_cannot_be_displayed_are_refused(anna, name):
    body = json.dumps({"name": name}).encode()
    answer = anna.post("/api/classes", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422), answer.text
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize("id", ["..", "%2e%2e%2f", "a%00b", "'%20OR%201=1", "%F0%9F%90%88", "x" * 5000])
def test_unusual_ids_do_not_exist(anna, id):
    assert anna.get(f"/api/photos/{id}/thumbnail").status_code == 404
    assert anna.get("/api/photos", params={"class_id": "\0' OR 1=1"}).status_code == 404


def test_an_update_that_does_not_fit_is_refused(anna, update_file):
    for content in (b"", b"nonsense", update_file.read_bytes()[:-100]):
        answer = anna.post("/api/versions", content=content, headers=FILE)
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "bad_file"


def test_the_error_of_a_foreign_file_is_for_a_client_of_the_api(anna, update_file):
    """It begins with a capital, and its hint does not name options of the command line."""
    update = Update.from_bytes(update_file.read_bytes())
    update.classes = ["disc", "disc", "plain"]
    weights = safetensors.numpy.save({"weight": np.zeros(3, np.float32)})
    for content in (b"", b"nonsense", update_file.read_bytes()[:-100], weights, update.to_bytes()):
        error = anna.post("/api/versions", content=content, headers=FILE).json()["error"]
        assert error["message"].startswith("The file")
        assert error["hint"] == "Send a .safetensors file that 'fit train' or this service has written."


def test_an_update_for_large_images_is_refused(anna, update_file):
    """One such image would take the time of hundreds."""
    update = Update.from_bytes(update_file.read_bytes())
    update.pixels = replace(update.pixels, size=2048)
    answer = anna.post("/api/versions", content=update.to_bytes(), headers=FILE)
    assert answer.status_code == 400
    assert "2048" in answer.json()["error"]["message"]


def test_rate_limits_refill():
    now = [0.0]
    rates = RateLimiter(60, keys=2, clock=lambda: now[0])
    for _ in range(60):
        rates.count("a")
    with pytest.raises(ApiError) as refused:
        rates.count("a")
    assert (refused.value.status, refused.value.retry) == (429, 1)
    rates.count("b")  # another key is not affected
    now[0] = 1.0
    rates.count("a")
    with pytest.raises(ApiError):
        rates.count("a")
    rates.count("c")  # the third key: the least recent one is removed
    assert set(rates.buckets) == {"a", "c"}


def test_tokens_and_addresses_have_rate_limits(engine, tmp_path):
    settings = replace(SETTINGS, rate=3)
    for running in run_service(tmp_path, engine, settings):
        running.add_user("anna")
        running.add_user("bob")
        anna, bob = running.client("anna"), running.client("bob")
        codes = [anna.get("/api/me").status_code for _ in range(4)]
        assert codes == [200, 200, 200, 429]
        assert bob.get("/api/me").status_code == 200
        answers = [running.client(None).get("/healthz") for _ in range(12)]
        assert {one.status_code for one in answers} == {200, 429}  # 15 per minute for the address
        last = answers[-1]
        assert last.status_code == 429
        assert int(last.headers["retry-after"]) >= 1
        assert last.json()["error"]["code"] == "too_many"


@pytest.mark.parametrize("rate", ["0", "-1", "many", "5/second", ""])
def test_invalid_rates_are_refused(rate):
    with pytest.raises(UsageError, match="600/minute"):
        read_rate(rate)
    assert read_rate("600/minute") == read_rate("600") == 600


def test_over_tls(service, tmp_path):
    make_keys(tmp_path)  # a certificate authority, and a certificate for this machine
    listen = ListenAddress(certificate=tmp_path / "server.crt", key=tmp_path / "server.key", host="0.0.0.0")
    listen.check()
    with UvicornThread(service.app, listen) as url:
        trusted = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
        https = url.replace("http:", "https:")
        health = httpx.get(f"{https}/healthz", verify=trusted, trust_env=False)
        assert health.json()["status"] == "ok"
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{url}/healthz", trust_env=False)
    service.app.state.service.stopping.clear()


def test_a_full_quota_is_reported(service):
    made = service.client("admin").post("/api/users", json={"name": "small", "quota": {"photos": 1}}).json()
    service.tokens["small"] = made["token"]
    small = service.client("small")
    class_id = small.post("/api/classes", json={"name": "x"}).json()["id"]
    codes = [
        small.post(f"/api/classes/{class_id}/photos", content=encoded(0, i), headers=JPEG).status_code
        for i in (1, 2)
    ]
    assert codes == [201, 507]
    assert len(small.get("/api/photos").json()["photos"]) == 1


def upload(
    running, who: str, body: bytes, length: int | None = None, path: str = "/api/predictions"
) -> bytes:
    """Return a request, for a prediction unless there is a path, with the beginning of its body."""
    token = running.tokens[who]
    return (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n"
        f"Content-Type: application/octet-stream\r\nContent-Length: {length or len(body)}\r\n\r\n"
    ).encode() + body


@pytest.fixture(scope="module")
def narrow(tmp_path_factory, engine, update_file):
    """A service that processes one upload at a time, with a long patience for each."""
    yield from patient_service(tmp_path_factory.mktemp("narrow"), engine, update_file, 1)


@pytest.fixture(scope="module")
def wide(tmp_path_factory, engine, update_file):
    """The same for two uploads at a time, one of a user."""
    yield from patient_service(tmp_path_factory.mktemp("wide"), engine, update_file, 2)


def patient_service(folder, engine, update_file, max_uploads):
    settings = replace(SETTINGS, max_uploads=max_uploads, max_wait=600.0, max_pause=600.0)
    for running in run_service(folder, engine, settings):
        for who in ("anna", "bob", "carol"):
            running.add_user(who)
            content = update_file.read_bytes()
            running.client(who).post("/api/versions", content=content, headers=FILE).raise_for_status()
        yield running


def connect(running) -> socket.socket:
    _, host, port = running.url.replace("//", "").split(":")
    return socket.create_connection((host, int(port)), 60)


def until(condition) -> None:
    while not condition():
        threading.Event().wait(0.005)


@pytest.fixture
def held(narrow):
    """A connection of Bob that holds the only turn, since its body is not complete."""
    turns = narrow.app.state.service.uploads
    until(lambda: not turns._running)
    with connect(narrow) as line:
        line.sendall(upload(narrow, "bob", b"some", 1000))
        until(lambda: turns._running)
        yield line


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("size", [100, 2_000_000])
def test_a_client_that_leaves_frees_its_place(narrow, size):
    """Also if it has sent more than the service has read of it."""
    turns = narrow.app.state.service.uploads
    with connect(narrow) as line:
        line.setblocking(False)
        line.send(upload(narrow, "anna", b"x" * size))
        until(lambda: turns.waiting)
    until(lambda: not turns.waiting)
    assert turns._running, "the other one still has its turn"


@pytest.mark.usefixtures("held")
def test_a_body_is_not_read_before_its_turn(narrow):
    """What has not been read stays with the client."""
    turns = narrow.app.state.service.uploads
    content = encoded(1, 3)
    content += b"\0" * (SETTINGS.max_photo_bytes - len(content))
    with connect(narrow) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 100_000)
        line.settimeout(0.5)
        with pytest.raises(TimeoutError):
            line.sendall(upload(narrow, "anna", content))
        assert turns.waiting == 1
    until(lambda: not turns.waiting)


def test_waiting_requests_are_served_when_their_turn_comes(narrow, held):
    turns = narrow.app.state.service.uploads
    with connect(narrow) as line:
        line.sendall(upload(narrow, "anna", encoded(1, 3)))
        until(lambda: turns.waiting)
        held.close()
        assert line.recv(1000).startswith(b"HTTP/1.1 200")


def test_a_slow_body_gives_way_to_requests_that_wait(narrow, held, monkeypatch):
    turns = narrow.app.state.service.uploads
    monkeypatch.setattr("filmtransfer.serve.turns.UNDISTURBED_SECONDS", 0.5)
    with connect(narrow) as mine, connect(narrow) as other:
        mine.sendall(upload(narrow, "bob", encoded(1, 3)))
        other.sendall(upload(narrow, "anna", encoded(1, 3)))
        until(lambda: turns.waiting)
        assert held.recv(1000).startswith(b"HTTP/1.1 408")
        assert other.recv(1000).startswith(b"HTTP/1.1 200")
        assert mine.recv(1000).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("path", ["/api/predictions", "/api/versions"])
def test_two_users_with_slow_bodies_do_not_keep_another_one_waiting(wide, update_file, path, monkeypatch):
    """Each of their bodies arrives at 100 kB/s, and nobody waits for its end."""
    monkeypatch.setattr("filmtransfer.serve.turns.UNDISTURBED_SECONDS", 0.2)
    service, stop = wide.app.state.service, threading.Event()
    turns = service.uploads if path == "/api/predictions" else service.file_uploads
    content, kind = (encoded(1, 3), JPEG) if path == "/api/predictions" else (update_file.read_bytes(), FILE)
    with ExitStack() as stack:
        lines = [stack.enter_context(connect(wide)) for _ in range(2)]

        def send(line: socket.socket) -> None:
            with suppress(OSError):  # refused
                while not stop.wait(0.1):
                    line.sendall(b"x" * 10_000)

        threads = [threading.Thread(target=send, args=(line,)) for line in lines]
        for user, line, thread in zip(("bob", "carol"), lines, threads, strict=True):
            line.sendall(upload(wide, user, b"some", 2_900_000, path))
            thread.start()
        until(lambda: len(turns._running) == 2)
        try:
            answer = wide.client("anna").post(path, content=content, headers=kind)
            assert answer.is_success, answer.text
            assert turns._running, "the other one has its turn still"
        finally:
            stop.set()
            for thread in threads:
                thread.join()


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("expected", [0.0, 1200.5])
def test_a_request_that_waits_too_long_is_refused(narrow, monkeypatch, expected):
    """After its time, or at once if that can be foreseen; it is told when to try again."""
    turns, bodies = narrow.app.state.service.uploads, narrow.app.middleware_stack
    while type(bodies).__name__ != "BodyLimitMiddleware":
        bodies = bodies.app
    bodies.refusals.until.clear()
    monkeypatch.setattr(turns, "expected_wait", lambda user: expected)
    if not expected:
        monkeypatch.setattr(bodies, "settings", replace(bodies.settings, max_wait=0.05))
    answer = narrow.client("anna").post("/api/predictions", content=encoded(1, 3), headers=JPEG)
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "busy"
    assert answer.headers["retry-after"] == ("60" if expected else "1")
    assert turns.waiting == 0


def test_a_refused_client_is_refused_until_it_was_told_to_return():
    now = [0.0]
    refusals = Refusals(keys=2, clock=lambda: now[0])
    refusals.check("a")
    assert refusals.add("a", 3).retry == 3
    now[0] = 1.5
    with pytest.raises(ApiError) as refused:
        refusals.check("a")
    assert (refused.value.status, refused.value.retry) == (503, 2)
    refusals.check("b")
    now[0] = 3.0
    refusals.check("a")
    for token in ("b", "c", "d"):
        refusals.add(token, 60)
    refusals.check("b")  # the oldest one is forgotten
    assert set(refusals.until) == {"c", "d"}


@pytest.mark.usefixtures("held")
def test_a_refused_client_is_not_authenticated_again(narrow, monkeypatch):
    turns = narrow.app.state.service.uploads
    carol = narrow.client("carol")
    with monkeypatch.context() as patch:
        patch.setattr(turns, "expected_wait", lambda user: 1200.0)
        assert carol.post("/api/predictions", content=encoded(1, 3), headers=JPEG).status_code == 503
        patch.setattr(narrow.store.users, "by_token", None)
        again = carol.post("/api/predictions", content=encoded(1, 3), headers=JPEG)
    assert again.status_code == 503
    assert 50 <= int(again.headers["retry-after"]) <= 60
    assert carol.get("/api/me").status_code == 200, "other requests are served"


def test_requests_that_are_refused_before_they_are_routed_are_counted_with_their_route(narrow):
    """Without the ids in their path."""
    for route in (PREDICTIONS, PHOTOS, VERSIONS):
        assert route in narrow.app.openapi()["paths"]
        path = route.replace("{id}", "some-id")
        with connect(narrow) as line:
            line.sendall(upload(narrow, "bob", b"", 99_000_000, path))
            assert line.recv(1000).startswith(b"HTTP/1.1 413")
        text = narrow.client(None).get("/metrics").text
        assert f'fit_requests_total{{method="POST",route="{route}",status="413"}} 1.0' in text
    assert "some-id" not in text


def test_a_body_that_is_not_complete_does_not_keep_the_service_from_ending(engine, tmp_path, caplog):
    """Its client is told to try again."""
    for running in run_service(tmp_path, engine, SETTINGS):
        running.add_user("bob")
        service = running.app.state.service
        with connect(running) as line, caplog.at_level(logging.INFO):
            line.sendall(upload(running, "bob", b"some", 1000))
            while not service.uploads._running:
                threading.Event().wait(0.005)
            service.end()
            response = b""
            while not response.endswith(b"}"):
                response += line.recv(10_000)
            assert response.startswith(b"HTTP/1.1 503")
            assert b"The service is ending" in response
        late = running.client("bob").post("/api/predictions", content=encoded(1, 3), headers=JPEG)
        assert (late.status_code, late.headers["retry-after"]) == (503, "5")
    assert "Traceback" not in caplog.text
