"""Connections whose clients are slow, many, or do not speak HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from filmtransfer.budgets import MAX_HEADER_BYTES, MAX_HEADERS, MAX_URL_BYTES, SPARE_CONNECTIONS
from filmtransfer.federated.keys import make_keys
from filmtransfer.serve import connections
from filmtransfer.serve.connections import HangUps
from filmtransfer.serve.server import ListenAddress
from tests.serve.conftest import SETTINGS, RunningService, UvicornThread, bearer, encoded, run_service
from tests.serve.service_process import until

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
PATIENCE = 60  # seconds, of these clients
ODD_REQUESTS = 300
SIZE = 2_000_000  # of a photo, more than the buffers of a connection


@pytest.fixture(scope="module")
def strict(tmp_path_factory, engine) -> Iterator[RunningService]:
    """A service that does not wait for long."""
    settings = replace(SETTINGS, max_head_seconds=0.3, max_send_pause=0.3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections, "CHECK_SECONDS", 0.05)
        for running in run_service(tmp_path_factory.mktemp("strict"), engine, settings):
            running.add_user("anna")
            yield running


def address(running: RunningService) -> tuple[str, int]:
    _, host, port = running.url.replace("//", "").split(":")
    return host, int(port)


def connected(running: RunningService) -> socket.socket:
    return socket.create_connection(address(running), PATIENCE)


def received(line: socket.socket) -> bytes:
    """Return everything until the service closes the connection."""
    content = b""
    while True:
        try:
            more = line.recv(65536)
        except ConnectionResetError:
            return content
        if not more:
            return content
        content += more


def error_of(response: bytes) -> tuple[int, str]:
    """Return the status and message of an error in the format of all errors."""
    head, _, body = response.partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower()
    error = json.loads(body)["error"]
    assert set(error) == {"code", "message", "hint"}
    assert error["message"]
    return int(head.split()[1]), error["message"]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", None),
        (b"GET /healthz HT", 408),
        (HEALTH[:-2], 408),
        (HEALTH + HEALTH[:-2], 408),  # the second request of a connection
    ],
)
def test_headers_have_to_arrive_in_time(strict, sent, status):
    with connected(strict) as line:
        line.sendall(sent)
        response = received(line)
    if status is None:
        assert response == b""
    else:
        assert error_of(response[response.rindex(b"HTTP/1.1") :])[0] == status


def test_a_header_byte_now_and_then_does_not_keep_a_connection(strict):
    ended = threading.Event()

    def trickle(line: socket.socket) -> None:
        try:
            while not ended.wait(0.02):
                line.sendall(b"x")
        except OSError:
            pass

    with connected(strict) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
        thread = threading.Thread(target=trickle, args=(line,))
        thread.start()
        assert b" 408 " in received(line)
        ended.set()
        thread.join()


def test_a_client_that_does_not_read_is_disconnected(strict):
    """Otherwise each such response would stay in memory."""
    anna = strict.client("anna")
    class_id = anna.post("/api/classes", json={"name": "x"}).json()["id"]
    content = encoded(0, 1)
    content += b"\0" * (SIZE - len(content))
    made = anna.post(
        f"/api/classes/{class_id}/photos", content=content, headers={"Content-Type": "image/jpeg"}
    )
    request = f"GET /api/photos/{made.json()['id']} HTTP/1.1\r\nAuthorization: {bearer(strict.tokens['anna'])['Authorization']}\r\nHost: x\r\n\r\n"
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.connect(address(strict))
        line.sendall(10 * request.encode())  # one after the other, also where the system's buffers are large
        while not strict.connections.open:
            threading.Event().wait(0.01)
        while strict.connections.open:
            threading.Event().wait(0.01)
        assert len(received(line)) < 10 * SIZE
    assert len(anna.get(f"/api/photos/{made.json()['id']}").content) == SIZE


@pytest.mark.parametrize(
    ("request_line", "headers", "status", "message"),
    [
        (f"GET /{'x' * MAX_URL_BYTES} HTTP/1.1", "", 414, str(MAX_URL_BYTES)),
        (f"GET /healthz?{'x' * MAX_URL_BYTES} HTTP/1.1", "", 414, str(MAX_URL_BYTES)),
        ("GET /healthz HTTP/1.1", "a: b\r\n" * MAX_HEADERS, 431, str(MAX_HEADERS)),
        ("GET /healthz HTTP/1.1", f"a: {'x' * MAX_HEADER_BYTES}\r\n", 431, str(MAX_HEADER_BYTES)),
        ("GET /healthz HTTP/1.1", f"a: {'x' * 1_000_000}\r\n", 431, str(MAX_HEADER_BYTES)),
        ("GET /healthz", "", 400, ""),
        ("nonsense", "", 400, ""),
        ("GET /healthz HTTP/1.1", "Content-Length: 1\r\nContent-Length: 2\r\n", 400, ""),
        ("GET /healthz HTTP/1.1", "Content-Length: -1\r\n", 400, ""),
        ("GET /healthz HTTP/1.1", "Content-Length: 1" + 30 * "0" + "\r\n", 400, ""),
        ("GET /healthz HTTP/1.1", "Transfer-Encoding: gzip\r\n", 501, ""),
        ("GET /healthz HTTP/1.1", "a: \0\r\n", 400, ""),
    ],
)
def test_invalid_requests_get_an_error_in_the_format_of_all(service, request_line, headers, status, message):
    with connected(service) as line:
        try:
            line.sendall(f"{request_line}\r\nHost: x\r\n{headers}\r\n".encode())
        except OSError:  # it has responded already
            pass
        response = received(line)
    if (
        response or len(headers) < MAX_HEADER_BYTES
    ):  # otherwise what was sent later may have reset the connection
        code, text = error_of(response)
        assert code == status
        assert message in text


def test_requests_within_the_limits_are_served(service):
    headers = "".join(f"a{i}: b\r\n" for i in range(MAX_HEADERS - 2))
    with connected(service) as line:
        line.sendall(
            f"GET /healthz?{'x' * 4000} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n".encode()
        )
        assert received(line).startswith(b"HTTP/1.1 200")


def test_an_address_has_a_limited_number_of_connections(engine, tmp_path):
    settings = replace(SETTINGS, max_connections_of_address=2)
    for running in run_service(tmp_path, engine, settings):
        with connected(running) as one, connected(running) as other, connected(running) as third:
            third.sendall(HEALTH)
            assert error_of(received(third))[0] == 429
            one.sendall(HEALTH)
            other.sendall(HEALTH)
            assert one.recv(100).startswith(b"HTTP/1.1 200")
            assert other.recv(100).startswith(b"HTTP/1.1 200")
        while not running.client(None).get("/healthz").is_success:  # the others have been closed
            pass


def test_connections_above_the_limit_are_refused_and_the_others_are_served(engine, tmp_path):
    settings = replace(SETTINGS, max_connections=3)
    for running in run_service(tmp_path, engine, settings):
        with ExitStack() as stack:
            lines = [stack.enter_context(connected(running)) for _ in range(3 + SPARE_CONNECTIONS + 20)]
            assert received(lines[-1]) == b""
            lines[3].sendall(HEALTH)
            response = received(lines[3])
            assert error_of(response)[0] == 503
            assert b"retry-after: 1" in response.lower()
            for line in lines[:3]:
                line.sendall(HEALTH)
                assert line.recv(100).startswith(b"HTTP/1.1 200")
        while not running.client(None).get("/healthz").is_success:
            pass


@pytest.mark.process(seconds=3)
@pytest.mark.parametrize("limit", ["max_connections", "max_connections_of_address"])
def test_connections_without_a_tls_handshake_are_limited(engine, tmp_path, limit):
    make_keys(tmp_path)
    listen = ListenAddress(certificate=tmp_path / "server.crt", key=tmp_path / "server.key")
    settings = replace(SETTINGS, max_head_seconds=1000, **{limit: 2})
    for running in run_service(tmp_path, engine, settings):
        server = UvicornThread(running.app, listen)
        with server as url, ExitStack() as stack:
            port = int(url.rpartition(":")[2])
            for _ in range(2 + SPARE_CONNECTIONS):
                stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
            with socket.create_connection(("127.0.0.1", port), PATIENCE) as one_more:
                assert received(one_more) == b""
            assert len(server.connections.open) == 2 + SPARE_CONNECTIONS
            stack.close()
            until(lambda open=server.connections.open: not open)
            assert server.connections.refused == 0
            assert not server.connections.addresses
            with socket.create_connection(("127.0.0.1", port), PATIENCE) as line:
                context = ssl.create_default_context(cafile=tmp_path / "ca.crt")
                with context.wrap_socket(line, server_hostname="127.0.0.1") as tls:
                    tls.sendall(HEALTH)
                    assert tls.recv(100).startswith(b"HTTP/1.1 200")
        running.app.state.service.stopping.clear()


def test_a_request_that_is_refused_while_it_waits_leaves_the_line(engine, tmp_path):
    for running in run_service(tmp_path, engine, replace(SETTINGS, max_wait=1000)):
        running.add_user("anna")
        uploads = running.app.state.service.uploads
        uploads.at_once = 0  # nobody gets a turn
        token = bearer(running.tokens["anna"])["Authorization"]
        head = f"POST /api/predictions HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\n"
        with connected(running) as line:
            line.sendall(f"{head}Content-Type: image/png\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
            until(lambda uploads=uploads: uploads.waiting)
            line.sendall(b"ZZZ\r\n")
            assert error_of(received(line))[0] == 400
            until(lambda uploads=uploads: not uploads.waiting)


@pytest.mark.skipif(sys.platform != "linux", reason="needs epoll")
def test_the_descriptor_of_a_closed_connection_may_be_used_again():
    """The end of a request on the closed connection does not concern that of the new one."""

    def transport(line: socket.socket) -> asyncio.Transport:
        return asyncio.Transport({"socket": line})

    async def observe_two() -> None:
        hang_ups, loop = HangUps(), asyncio.get_running_loop()
        calls: asyncio.Queue[str] = asyncio.Queue()
        (one, client), (other, other_client) = socket.socketpair(), socket.socketpair()
        with client, other_client, ExitStack() as first, ExitStack() as second:
            first.enter_context(hang_ups.observed(loop, transport(one), lambda: calls.put_nowait("first")))
            os.dup2(other.fileno(), one.fileno())  # closes the first connection
            other.close()
            second.enter_context(hang_ups.observed(loop, transport(one), lambda: calls.put_nowait("second")))
            first.close()
            other_client.close()
            assert await calls.get() == "second"
        one.close()
        assert not hang_ups.callbacks

    asyncio.run(asyncio.wait_for(observe_two(), PATIENCE))


def test_a_tls_handshake_has_to_end_in_time(strict, tmp_path):
    make_keys(tmp_path)
    listen = ListenAddress(certificate=tmp_path / "server.crt", key=tmp_path / "server.key")
    with (
        UvicornThread(strict.app, listen) as url,
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), PATIENCE) as line,
    ):
        line.sendall(b"\x16\x03")  # the beginning of a handshake
        assert received(line) == b""
    strict.app.state.service.stopping.clear()


PIECES = [
    b"GET ", b"POST ", b"\xff\xfe ", b"/healthz", b"/api/predictions", b"/api/%00", b"/%ff%fe", b"/..//..%2f", b"http://x/healthz",
    b"*", b"?a=" + b"x" * 9000, b" HTTP/1.1", b" HTTP/1.0", b" HTTP/0.9", b"\r\n", b"\r\n\r\n", b"\n\n", b"\0", b"Host: x\r\n",
    b"Content-Length: 5\r\n", b"Content-Length: 7\r\n", b"Content-Length: 9999999999999\r\n", b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: chunked, chunked\r\n", b"Connection: close\r\n", b"Connection: upgrade\r\nUpgrade: websocket\r\n",
    b"Expect: 100-continue\r\n", b"Content-Type: application/json\r\n", b"Authorization: Bearer TOKEN\r\n", b"a: " + b"y" * 20000 + b"\r\n",
    b"5\r\nhello\r\n", b"0\r\n\r\n", b"zz\r\n", b"ffffffffffffffff\r\n", b'{"name": "x"}', b"{", b"X" * 100, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]  # fmt: skip
REQUESTS = [
    [b"POST /api/classes HTTP/1.1\r\n", b"Host: x\r\n", b"Authorization: Bearer TOKEN\r\n", b"Content-Type: application/json\r\n",
     b"Content-Length: 13\r\n", b"\r\n", b'{"name": "x"}'],
    [b"POST /api/predictions HTTP/1.1\r\n", b"Host: x\r\n", b"Authorization: Bearer TOKEN\r\n", b"Content-Type: image/png\r\n",
     b"Transfer-Encoding: chunked\r\n", b"\r\n", b"5\r\nhello\r\n", b"0\r\n\r\n"],
    [b"GET /healthz HTTP/1.1\r\n", b"Host: x\r\n", b"\r\n"],
    [b"GET /api/me?project=%00 HTTP/1.1\r\n", b"Host: x\r\n", b"Authorization: Bearer TOKEN\r\n", b"\r\n"],
]  # fmt: skip


def begin_of_response(line: socket.socket) -> bytes:
    """Return what arrives soon; a request that is not complete has no response."""
    line.settimeout(0.03)
    try:
        return line.recv(65536)
    except TimeoutError:
        return b""
    finally:
        line.settimeout(PATIENCE)


def odd_request(generator: random.Random, token: str) -> bytes:
    """Return requests of a connection, of which pieces were replaced, repeated, moved or left out."""
    pieces = []
    for _ in range(generator.randint(1, 3)):  # pipelined
        pieces += generator.choice(REQUESTS)
    for _ in range(generator.randint(0, 4)):
        index = generator.randrange(len(pieces))
        match generator.randrange(4):
            case 0:
                pieces[index] = generator.choice(PIECES)
            case 1:
                pieces.insert(index, generator.choice(PIECES))
            case 2:
                pieces[index] = generator.randbytes(generator.randint(1, 40))
            case _:
                del pieces[index]
                pieces = pieces or [b""]
    content = b"".join(pieces).replace(b"TOKEN", token.encode())
    return content[: generator.randint(0, len(content))] if generator.random() < 0.2 else content


def statuses(response: bytes) -> list[int]:
    """Return the status of each response of a connection."""
    lines = [line for line in response.split(b"\r\n") if b"HTTP/1.1 " in line]
    return [int(line[line.index(b"HTTP/1.1 ") :].split()[1]) for line in lines]


@pytest.mark.slow(seconds=6)
def test_odd_requests_get_no_server_error(service, caplog, capfd):
    """No response with status 500, no exception in the log or on stderr, and the service remains."""
    generator, seen = random.Random(19), set()
    for _ in range(ODD_REQUESTS):
        sent = odd_request(generator, service.tokens["bob"])
        with connected(service) as line:
            try:
                line.sendall(sent)
                if generator.random() < 0.1:
                    continue  # closed early
                first = begin_of_response(line)
                line.shutdown(socket.SHUT_WR)
            except OSError:
                continue
            seen |= set(statuses(first + received(line)))
    assert {200, 400, 401} & seen
    assert not {status for status in seen if status >= 500} - {501, 503}, seen
    assert "Traceback" not in caplog.text
    assert "Exception" not in caplog.text
    assert "unexpected error" not in caplog.text
    assert "Traceback" not in capfd.readouterr().err
    assert service.client(None).get("/healthz").is_success
