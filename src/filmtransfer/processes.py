"""Processes that end with the one that started them, however that ends.

Between parent and child is a pipe that nobody writes to. When the parent ends, even by SIGKILL, the system closes it:
the child reads the end of it and ends too, so nothing goes on training and no port stays taken.
"""

from __future__ import annotations

import ipaddress
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import connection
from pathlib import Path
from types import FrameType
from typing import IO, Any, ClassVar

from .errors import InputError, UnavailableError

try:
    import fcntl
except ImportError:
    raise UnavailableError("Windows cannot run a server or a client.", "Use Linux there (WSL).") from None

FORK = multiprocessing.get_context("fork")
GRACE = 8.0  # seconds to say goodbye in
PATIENCE = 10.0  # seconds until the children of a process that was killed are gone
HERE = "127.0.0.1"


class Logged:
    """What a child says goes to a file; from there we tell what matters."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.begin = self.read = log.stat().st_size if log.exists() else 0

    def news(self) -> list[str]:
        """The whole lines that have come since the last look."""
        with self.log.open("rb") as file:
            file.seek(self.read)
            text = file.read()
        whole = text.rfind(b"\n") + 1
        self.read += whole
        return [line.strip() for line in text[:whole].decode(errors="replace").splitlines()]

    def last_line(self) -> str:
        """What it said last, as the reason for its end."""
        size = self.log.stat().st_size
        with self.log.open("rb") as file:
            file.seek(max(self.begin, size - 5000))
            lines = file.read().decode(errors="replace").splitlines()
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "it said nothing")


class Child(Logged):
    """A module (by its full name) in a Python of its own."""

    pipes: ClassVar[list[IO[bytes]]] = []  # our ends; a fork must not keep them open when we are gone

    def __init__(self, module: str, words: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        super().__init__(log)
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *words],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,  # Ctrl-C is for us; we tell the child
            )
        assert self.process.stdin is not None
        self.pipes.append(self.process.stdin)

    def alive(self) -> bool:
        return self.process.poll() is None

    def end(self) -> None:
        if self.alive():
            self.process.terminate()
            try:
                self.process.wait(GRACE)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.pipes.remove(self.process.stdin)
        self.process.stdin.close()


class Fork(Logged):
    """A function in a copy of this process, which has torch imported already: that takes seconds."""

    def __init__(
        self,
        target: Callable[..., None],
        words: tuple[Any, ...],
        log: Path,
        environment: Mapping[str, str],
    ) -> None:
        super().__init__(log)
        log.touch()
        self.process = FORK.Process(target=_become, args=(target, words, log, dict(environment)))
        self.process.start()

    def alive(self) -> bool:
        return self.process.is_alive()

    def end(self) -> None:
        if self.alive():
            self.process.terminate()
            self.process.join(GRACE)
        if self.alive():
            self.process.kill()
        self.process.join()


def _become(
    target: Callable[..., None], words: tuple[Any, ...], log: Path, environment: dict[str, str]
) -> None:
    """In the fork: leave behind what is the parent's."""
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    for pipe in Child.pipes:
        pipe.close()
    with log.open("ab") as file, open(os.devnull, "rb") as nothing:
        sys.stdout.flush()
        sys.stderr.flush()
        for here, there in ((nothing, 0), (file, 1), (file, 2)):
            os.dup2(here.fileno(), there)
    os.environ.update(environment)
    die_with_parent()
    target(*words)


def follow_parent() -> None:
    """In a child: end when the parent is gone."""

    def watch() -> None:
        while True:
            try:
                if not os.read(0, 1):
                    break
            except OSError:
                break
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="follow-parent").start()


def die_with_parent() -> None:
    """In a fork: end at once when the parent is gone."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="die-with-parent").start()


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM ends the work as Ctrl-C does, so that children are ended and locks returned."""

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def only_one(folder: Path, what: str) -> Iterator[None]:
    """A folder has one owner at a time, forks included; the system gives it back when the last of them dies."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file: IO[bytes] = (folder / "lock").open("ab")
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written ({error.strerror}).", "Choose another folder."
        ) from None
    deadline = time.monotonic() + PATIENCE
    with file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise UnavailableError(
                        f"Another {what} works in {folder}.",
                        "End it first, or give this one a folder of its own.",
                    ) from None
                time.sleep(0.1)
        yield


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HERE, 0))
        return int(probe.getsockname()[1])


def wait_for_port(host: str, port: int) -> None:
    """The port can be had, at the latest when the children of a server that was killed are gone."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    deadline = time.monotonic() + PATIENCE
    while True:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
                return
            except OSError as error:
                if time.monotonic() > deadline or error.errno not in (98, 48):  # in use: Linux, macOS
                    raise UnavailableError(
                        f"Port {port} of {host} cannot be had ({error.strerror}).",
                        "Choose another with --port, or end what uses it.",
                    ) from None
        time.sleep(0.2)
