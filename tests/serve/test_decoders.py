"""Decoder processes: the same results, and a decoder that crashes, hangs or takes too much costs one request only."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from filmtransfer.data import PixelSpec, decode, to_square
from filmtransfer.errors import InputError, UnavailableError
from filmtransfer.serve import decoders as decoders_module
from filmtransfer.serve.app import create_app
from filmtransfer.serve.decoder import make_thumbnail, receive, respond, send
from filmtransfer.serve.decoders import DecodeJob, Decoders
from filmtransfer.serve.engine.batcher import Batcher
from filmtransfer.serve.engine.cache import Cache
from filmtransfer.serve.settings import ServiceSettings
from filmtransfer.serve.store import Store, StoreLocation
from tests.data.test_pixels import gradient, heic
from tests.serve.conftest import SETTINGS, RunningService, UvicornThread, encoded
from tests.serve.service_process import Serving, until

SPEC = PixelSpec(32, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), interpolation="bilinear", fit="crop")
PHOTO = encoded(0, 1)

# A package that is found first and makes the decoder of some images fail in the way that their width tells.
FAILING = """
import os, socket, time
import filmtransfer.serve.decoder as decoder
respond = decoder.respond

def fail(request, content):
    if content == b"abort":
        os.abort()
    if content == b"hang":
        while True:
            time.sleep(1)
    if content == b"memory":
        return {"error": str(len(bytearray(2_000_000_000)))}, b""
    if content == b"print":
        os.write(1, b"a library prints this")
    if content == b"type":
        return {"media_type": "text/html"}, b"<script>"
    if content.startswith(b"exec "):
        try:
            exec(content[5:])
        except OSError as error:
            return {"error": type(error).__name__}, b""
        return {"error": "nothing has prevented it"}, b""
    if content == b"long":
        import sys
        sys.stdout.flush()
        return {}, bytes(60_000_000)
    return respond(request, PHOTO if content == b"print" else content)

decoder.respond = fail
decoder.main()
"""


@pytest.fixture
def pool() -> Iterator[Decoders]:
    made = Decoders(ServiceSettings())
    yield made
    made.close()


@pytest.fixture
def failing(tmp_path, monkeypatch) -> Iterator[Callable[..., Decoders]]:
    """Return what makes a pool whose decoders fail if the content says so."""
    (tmp_path / "failing_decoder.py").write_text(f"PHOTO = {PHOTO!r}\n{FAILING}")
    paths = [str(tmp_path), *(path for path in sys.path if path)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setattr(decoders_module, "MODULE", "failing_decoder")
    made: list[Decoders] = []

    def make(**limits: int) -> Decoders:
        made.append(Decoders(replace(ServiceSettings(), **limits)))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.process(seconds=3)
def test_the_results_are_those_of_this_process(pool):
    for content in (
        PHOTO,
        heic(gradient()),
        encoded(1, 2, "PNG"),
        encoded(1, 2, "AVIF"),
        encoded(2, 2, "WEBP"),
    ):
        assert np.array_equal(pool.square(content, SPEC), to_square(decode(content, near=32), SPEC))
        assert pool.thumbnail(content) == make_thumbnail(content)
    for content in (b"text", b"", PHOTO[:300]):
        with pytest.raises(InputError, match=r"^This image cannot be used: [^.]*\. Send a JPEG"):
            pool.thumbnail(content)
    assert len(pool._all) == 1


@pytest.mark.process(seconds=3)
@pytest.mark.parametrize("how", ["abort", "memory", "print", "type", "long"])
def test_a_decoder_that_fails_costs_one_request(failing, how):
    pool = failing()
    assert pool.thumbnail(PHOTO)[0] == "image/jpeg"
    if how == "print":
        assert pool.thumbnail(b"print")[0] == "image/jpeg"
    else:
        reason = "its format is not known" if how == "type" else "it could not be decoded"
        with pytest.raises(InputError, match=f"^This image cannot be used: {reason}"):
            pool.thumbnail(how.encode())
    assert pool.square(PHOTO, SPEC).shape == (3, 32, 32)


@pytest.mark.process(seconds=3)
def test_a_decoder_says_what_an_image_has_cost(failing):
    pool, done, invalid, crashed = failing(), DecodeJob(), DecodeJob(), DecodeJob()
    pool.thumbnail(PHOTO, done)
    for job, content in ((invalid, b"text"), (crashed, b"abort")):
        with pytest.raises(InputError):
            pool.thumbnail(content, job)
    assert done.seconds > invalid.seconds > 0
    assert crashed.seconds is None


@pytest.mark.process(seconds=6)
def test_the_next_decoder_starts_before_it_is_needed(monkeypatch):
    monkeypatch.setattr(decoders_module, "MAX_IMAGES", 4)
    monkeypatch.setattr(decoders_module, "LAST_IMAGES", 2)
    pool = Decoders(replace(ServiceSettings(), decoders=1))
    try:
        used: list[int] = []
        for image in range(1, 10):
            pool.thumbnail(PHOTO)
            assert len(pool._all) == (2 if image % 4 in (2, 3) else 1)
            used.append(pool._idle[-1].process.pid)
        assert len(set(used)) == 3
    finally:
        pool.close()


@pytest.mark.process(seconds=4)
def test_a_decoder_that_never_returns_is_ended(failing):
    pool = failing(max_decode_seconds=1)
    with pytest.raises(InputError, match="decoding it takes more than 1 s"):
        pool.thumbnail(b"hang")
    assert pool.thumbnail(PHOTO)[0] == "image/jpeg"


@pytest.mark.process(seconds=3)
def test_an_image_within_the_budget_is_decoded_within_the_limit_of_memory(pool):
    """The largest RGB image, and one that needs more than the process may have."""
    Image.MAX_IMAGE_PIXELS, before = None, Image.MAX_IMAGE_PIXELS
    try:
        content = BytesIO()
        Image.new("L", (9000, 9000)).save(content, "PNG", compress_level=1)
    finally:
        Image.MAX_IMAGE_PIXELS = before
    assert pool.square(content.getvalue(), SPEC).max() == 0
    small = Decoders(replace(ServiceSettings(), decoder_megabytes=200))
    try:
        with pytest.raises(InputError, match="too much memory"):
            small.square(content.getvalue(), SPEC)
        assert small.thumbnail(PHOTO)[0] == "image/jpeg"
    finally:
        small.close()


@pytest.mark.process(seconds=6)
def test_the_largest_photos_can_be_kept(pool):
    """Their thumbnails take no second copy of all pixels."""
    Image.MAX_IMAGE_PIXELS, before = None, Image.MAX_IMAGE_PIXELS
    try:
        content = BytesIO()
        Image.new("RGB", (10_000, 10_000)).save(content, "PNG", compress_level=1)
    finally:
        Image.MAX_IMAGE_PIXELS = before
    assert pool.thumbnail(content.getvalue())[0] == "image/png"


@pytest.mark.process(seconds=3)
@pytest.mark.parametrize(
    "action",
    [
        "open(FILE).read()",
        "open(FILE, 'a')",
        "os.unlink(FILE)",
        "os.listdir(os.path.dirname(FILE))",
        "os.execv('/bin/true', ['true'])",
        "os.kill(os.getppid(), 0)",
        "socket.create_connection(('127.0.0.1', PORT))",
    ],
)
def test_code_that_runs_in_a_decoder_is_confined(failing, tmp_path, action):
    """Neither files nor programs nor processes nor connections: as far as the kernel can forbid them."""
    needed = 6 if "kill" in action else 4 if "socket" in action else 1
    if _landlock() < needed:
        pytest.skip("this kernel cannot forbid it")
    (tmp_path / "secret").write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as server:
        names = f"FILE, PORT = {str(tmp_path / 'secret')!r}, {server.getsockname()[1]}\n"
        with pytest.raises(InputError, match="cannot be used: PermissionError"):
            failing().thumbnail(f"exec {names}{action}".encode())
    assert (tmp_path / "secret").exists()


def _landlock() -> int:
    """Return the version of Landlock; 0 without it."""
    if sys.platform != "linux":
        return 0
    return max(0, ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1))


@pytest.mark.process(seconds=3)
def test_a_decoder_can_open_few_files_and_write_none(failing):
    pool = failing()
    for action in ("[os.dup(0) for _ in range(20)]", "os.write(os.memfd_create('x'), b'x')"):
        with pytest.raises(InputError, match="OSError"):
            pool.thumbnail(b"exec " + action.encode())


@pytest.mark.process(seconds=3)
def test_a_decoder_that_waits_has_no_limit_of_time(tmp_path, monkeypatch):
    """Whatever is set while it starts."""
    (tmp_path / "sitecustomize.py").write_text(
        "import signal\nalarm = signal.alarm\nsignal.alarm = lambda seconds: alarm(min(seconds, 1))\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    pool = Decoders(ServiceSettings())
    try:
        pool.start()
        (decoder,) = pool._all
        assert pool.thumbnail(PHOTO)[0] == "image/jpeg"
        with pytest.raises(subprocess.TimeoutExpired):
            decoder.process.wait(1.5)
    finally:
        pool.close()


@pytest.mark.process(seconds=3)
def test_a_decoder_that_was_killed_while_it_waited_is_replaced(pool):
    pool.start()
    (decoder,) = pool._all
    decoder.process.kill()
    decoder.process.wait()
    assert pool.thumbnail(PHOTO)[0] == "image/jpeg"
    assert decoder not in pool._all


@pytest.mark.process(seconds=4)
def test_closing_ends_decoders_that_work(failing):
    pool = failing(max_decode_seconds=100)
    pool.start()
    with ThreadPoolExecutor(1) as threads:
        hanging = threads.submit(pool.thumbnail, b"hang")
        until(lambda: not pool._idle)
        pool.close()
        with pytest.raises(UnavailableError, match="ending"):
            hanging.result()
    assert pool._all == set()
    with pytest.raises(UnavailableError, match="ending"):
        pool.thumbnail(PHOTO)


@pytest.mark.process
def test_a_decoder_has_no_credentials_and_a_missing_one_is_an_error(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    pool = Decoders(ServiceSettings())
    pool.start()
    if sys.platform == "linux":
        (decoder,) = pool._all
        assert b"secret" not in Path(f"/proc/{decoder.process.pid}/environ").read_bytes()
    pool.close()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(UnavailableError, match="cannot be decoded now"):
        Decoders(ServiceSettings()).thumbnail(PHOTO)


def test_messages():
    file = BytesIO()
    send(file, {"a": 1}, b"content")
    file.seek(0)
    assert receive(file) == ({"a": 1}, b"content")
    assert receive(file) is None
    whole = file.getvalue()
    for cut in (3, 10, len(whole) - 1):
        assert receive(BytesIO(whole[:cut])) is None
    assert receive(BytesIO(whole), largest=6) is None
    assert respond({}, b"text") == ({"error": "this is not an image"}, b"")


@pytest.fixture
def service(failing, tmp_path, engine, update_file) -> Iterator[RunningService]:
    """A service whose decoders can be made to fail, and two users with a classifier."""
    store, batcher = Store.open(StoreLocation.of(tmp_path / "service")), Batcher(engine)
    app = create_app(store, engine, batcher, Cache(16), SETTINGS)
    app.state.service.decoders = failing(max_decode_seconds=2)
    server = UvicornThread(app)
    with server as url:
        running = RunningService(store, app, url, server.connections)
        for name in ("anna", "bob"):
            running.add_user(name)
            binary = {"Content-Type": "application/octet-stream"}
            running.client(name).post("/api/versions", content=update_file.read_bytes(), headers=binary)
        yield running
        for client in running.clients:
            client.close()
    batcher.close()
    store.close()


@pytest.mark.process(seconds=6)
def test_one_user_cannot_stop_the_images_of_another(service):
    anna, bob = service.client("anna"), service.client("bob")
    jpeg = {"Content-Type": "image/jpeg"}
    stop = threading.Event()

    def attack() -> list[int]:
        statuses = []
        for content in (b"hang", b"abort", b"memory", b"abort"):
            statuses.append(anna.post("/api/predictions", content=content, headers=jpeg).status_code)
        stop.set()
        return statuses

    answered = 0
    with ThreadPoolExecutor(1) as threads:
        attacking = threads.submit(attack)
        while not stop.is_set() or answered == 0:
            answer = bob.post("/api/predictions", content=PHOTO, headers=jpeg)
            assert answer.status_code == 200, answer.text
            answered += 1
            stop.wait(0.05)
        assert attacking.result() == [400] * 4
    answer = anna.post("/api/predictions", content=b"hang", headers=jpeg)
    assert answer.json()["error"] == {
        "code": "bad_input",
        "message": "This image cannot be used: decoding it takes more than 2 s.",
        "hint": "Send a JPEG, PNG, WebP or HEIC photo.",
    }


@pytest.fixture
def hanging(service) -> Iterator[list[socket.socket]]:
    """Eight connections of Anna with images that are never decoded, one of them in a decoder."""
    service.app.state.service.decoders.settings = replace(SETTINGS, max_decode_seconds=1000)
    host, port = service.url.removeprefix("http://").split(":")
    head = (
        f"POST /api/predictions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.tokens['anna']}\r\n"
        "Content-Type: image/jpeg\r\nContent-Length: 4\r\n\r\nhang"
    ).encode()
    lines = [socket.create_connection((host, int(port)), 60) for _ in range(8)]
    for line in lines:
        line.sendall(head)
    turns = service.app.state.service.decoding
    until(lambda: (turns.waiting, turns.requests(_id(service, "anna"))) == (7, 8))
    yield lines
    for line in lines:
        line.close()


def _id(service: RunningService, name: str) -> str:
    return service.store.users.by_token(service.tokens[name]).id


@pytest.mark.process(seconds=6)
@pytest.mark.usefixtures("hanging")
def test_images_of_one_user_that_take_forever_leave_a_decoder_to_others(service):
    answer = service.client("bob").post(
        "/api/predictions", content=PHOTO, headers={"Content-Type": "image/jpeg"}
    )
    assert answer.status_code == 200, answer.text
    turns = service.app.state.service.decoding
    assert turns.requests(_id(service, "anna")) == 8, "none of the others has ended"


@pytest.mark.process(seconds=6)
def test_what_a_client_waits_for_ends_when_it_leaves(service, hanging, caplog):
    pool, turns = service.app.state.service.decoders, service.app.state.service.decoding
    until(lambda: pool._all - set(pool._idle))
    (busy,) = pool._all - set(pool._idle)
    for line in hanging:
        line.close()
    until(lambda: turns.requests(_id(service, "anna")) == 0)
    assert busy.process.poll() == -signal.SIGKILL
    assert not service.app.state.service.uploads._running
    assert "Traceback" not in caplog.text


@pytest.mark.process(seconds=6)
def test_images_are_refused_when_the_service_ends(service, hanging, caplog):
    service.app.state.service.end()
    for line in hanging:
        response = b""
        while not response.endswith(b"}"):
            response += line.recv(10_000)
        assert response.startswith(b"HTTP/1.1 503"), response
        assert b"The service is ending" in response
    assert "Traceback" not in caplog.text


@pytest.mark.process(seconds=6)
def test_a_decoder_that_stops_its_own_clock_is_ended_by_the_service(service, monkeypatch):
    seconds = 2 - SETTINGS.max_decode_seconds  # altogether two
    monkeypatch.setattr("filmtransfer.serve.uploads.START_SECONDS", seconds)
    content = b"exec import signal; signal.setitimer(signal.ITIMER_REAL, 0); time.sleep(1000)"
    headers = {"Content-Type": "image/jpeg"}
    answer = service.client("anna").post("/api/predictions", content=content, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
    answer = service.client("anna").post("/api/predictions", content=PHOTO, headers=headers)
    assert answer.status_code == 200


@pytest.mark.process(seconds=3)
def test_a_decoder_that_the_system_kills_is_not_the_fault_of_the_image(failing):
    pool = failing(max_decode_seconds=1000)
    pool.start()
    (decoder,) = pool._all
    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(pool.thumbnail, b"hang")
        until(lambda: not pool._idle)
        decoder.process.kill()
        with pytest.raises(UnavailableError, match="cannot be decoded now"):
            working.result()
    assert pool.thumbnail(PHOTO)[0] == "image/jpeg"


@pytest.mark.process(seconds=3)
def test_a_job_that_is_cancelled_ends_its_decoder_only(failing):
    pool, job = failing(max_decode_seconds=1000), DecodeJob()
    pool.start()
    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(pool.thumbnail, b"hang", job)
        until(lambda: job._decoder)
        job.cancel()
        with pytest.raises(UnavailableError):
            working.result()
        (another,) = pool._all
        done = DecodeJob()
        assert pool.thumbnail(PHOTO, done)[0] == "image/jpeg"
        done.cancel()
        assert another.alive()
        with pytest.raises(UnavailableError):
            pool.thumbnail(PHOTO, done)


@pytest.mark.process(seconds=3)
def test_a_process_decodes_some_images_only(pool, monkeypatch):
    monkeypatch.setattr(decoders_module, "MAX_IMAGES", 2)
    processes = []
    for _ in range(3):
        pool.thumbnail(PHOTO)
        processes.append(pool._all.copy())
    assert processes[0] != processes[1] == processes[2]


@pytest.mark.process(seconds=12)
def test_decoders_end_with_a_service_that_is_killed(tmp_path):
    """Their input ends then."""
    serving = Serving(tmp_path / "service")
    pid = serving.about()["pid"]
    children = until(lambda: _decoders_of(pid))
    os.kill(pid, signal.SIGKILL)
    serving.process.wait()
    until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


def _decoders_of(pid: int) -> list[int]:
    """Return the ids of the decoders of a process."""
    if sys.platform != "linux":
        pytest.skip("only Linux lists the children of a process")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(c) for c in children if b"serve.decoder" in Path(f"/proc/{c}/cmdline").read_bytes()]
