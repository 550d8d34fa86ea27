"""Child processes that end with their parent, usable cores, exclusive folders and free ports.

Parent and child share a pipe that nobody writes to. When the parent ends, even by SIGKILL, the operating system closes
the pipe; the child reads end-of-file and ends too, so that no training continues and no port stays in use.
"""

from __future__ import annotations

import ctypes
import errno
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
from contextlib import contextmanager, suppress
from multiprocessing import connection
from pathlib import Path
from types import FrameType
from typing import IO, ClassVar

from .errors import InputError, UnavailableError
from .files import open_private

GRACE_SECONDS = 8.0  # between SIGTERM and SIGKILL
RELEASE_SECONDS = 10.0  # within which the children of a killed process release its locks and ports
MAX_LOG_BYTES = 10_000_000  # of a log file to which another process appends
LOOPBACK = "127.0.0.1"
M_TRIM_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -4, -8  # options of glibc's mallopt


class LoggedProcess:
    """A process whose output goes to a log file, which can be read while it runs.

    A large file of earlier processes is renamed first, and replaces the one that was renamed before.
    """

    def __init__(self, log: Path) -> None:
        self.log = log
        if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
            log.replace(log.with_name(f"{log.name}.1"))
        self.begin = self.read = log.stat().st_size if log.exists() else 0

    def new_lines(self) -> list[str]:
        """Return the complete lines written since the last call."""
        text = self._read(self.read)
        complete = text.rfind(b"\n") + 1
        self.read += complete
        return [line.strip() for line in text[:complete].decode(errors="replace").splitlines()]

    def last_line(self) -> str:
        """Return the last line of output, usually the reason why the process ended."""
        lines = self._read(self.begin)[-5000:].decode(errors="replace").splitlines()
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "no output")

    def _read(self, begin: int) -> bytes:
        """Return the log from a position on; nothing if somebody has deleted it."""
        try:
            with self.log.open("rb") as file:
                file.seek(begin)
                return file.read()
        except OSError:
            return b""


class ChildProcess(LoggedProcess):
    """A module, by its full name, run by a new Python interpreter."""

    pipes: ClassVar[list[IO[bytes]]] = []  # the parent's ends, which a fork of the parent has to close

    def __init__(
        self, module: str, arguments: Sequence[str], log: Path, environment: Mapping[str, str]
    ) -> None:
        super().__init__(log)
        with open(open_private(log), "ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,  # Ctrl-C goes to the parent only, which stops the child
            )
        assert self.process.stdin is not None
        self.pipes.append(self.process.stdin)

    def alive(self) -> bool:
        """Return whether the process is running."""
        return self.process.poll() is None

    def stop(self) -> None:
        """Terminate the process, and kill it if it does not end in time."""
        if self.alive():
            self.process.terminate()
            try:
                self.process.wait(GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.pipes.remove(self.process.stdin)
        self.process.stdin.close()


class ForkedProcess(LoggedProcess):
    """A function in a fork of this process, which saves importing torch again."""

    def __init__(
        self,
        target: Callable[..., None],
        arguments: tuple[object, ...],
        log: Path,
        environment: Mapping[str, str],
    ) -> None:
        super().__init__(log)
        log.touch()
        fork = multiprocessing.get_context("fork")
        self.process = fork.Process(target=_run_forked, args=(target, arguments, log, dict(environment)))
        self.process.start()

    def alive(self) -> bool:
        """Return whether the process is running."""
        return self.process.is_alive()

    def stop(self) -> None:
        """Terminate the process, and kill it if it does not end in time."""
        if self.alive():
            self.process.terminate()
            self.process.join(GRACE_SECONDS)
        if self.alive():
            self.process.kill()
        self.process.join()


def _run_forked(
    target: Callable[..., None], arguments: tuple[object, ...], log: Path, environment: dict[str, str]
) -> None:
    """Detach the fork from its parent's session, signal handlers, pipes and output, then call the target."""
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    for pipe in ChildProcess.pipes:
        pipe.close()
    with open(open_private(log), "ab") as file, open(os.devnull, "rb") as no_input:
        sys.stdout.flush()
        sys.stderr.flush()
        for source, descriptor in ((no_input, 0), (file, 1), (file, 2)):
            os.dup2(source.fileno(), descriptor)
    os.environ.update(environment)
    exit_with_parent()
    target(*arguments)


def terminate_with_parent() -> None:
    """End this child process, SIGTERM first, as soon as its parent has ended."""

    def wait() -> None:
        with suppress(OSError):
            while os.read(0, 1):
                pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE_SECONDS)
        os._exit(1)

    threading.Thread(target=wait, daemon=True, name="terminate-with-parent").start()


def exit_within(seconds: float) -> None:
    """End this process after some seconds, even if threads do not end for which Python would wait."""
    timer = threading.Timer(seconds, os._exit, (0,))
    timer.daemon = True
    timer.start()


def exit_with_parent() -> None:
    """End this process of ``multiprocessing`` immediately when its parent has ended."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=wait, daemon=True, name="exit-with-parent").start()


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM too, so that children are stopped and locks released."""

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
def exclusive_folder(folder: Path, what: str) -> Iterator[None]:
    """Lock a folder for this process and its forks; the system releases it when the last of them ends."""
    try:
        import fcntl
    except ImportError:
        raise UnavailableError("Windows cannot run a server or a client.", "Use Linux there (WSL).") from None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file: IO[bytes] = open(open_private(folder / "lock"), "ab")  # noqa: SIM115
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written ({error.strerror}).", "Choose another folder."
        ) from None
    deadline = time.monotonic() + RELEASE_SECONDS
    with file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise UnavailableError(
                        f"Another {what} uses {folder}.", "Stop it first, or use another folder."
                    ) from None
                time.sleep(0.1)
        yield


def usable_cores(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the number of cores, by the process's affinity and, in a container, its share of processor time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    newer = _read_fields(cgroup / "cpu.max")
    quota, period = (cgroup / "cpu" / f"cpu.cfs_{name}_us" for name in ("quota", "period"))
    older = _read_fields(quota) + _read_fields(period)
    for share in (newer, older):
        if len(share) == 2 and all(field.isdigit() for field in share):  # not "max", not "-1"
            cores = min(cores, max(1, round(int(share[0]) / int(share[1]))))
    return cores


def set_malloc_options(options: Mapping[int, int]) -> bool:
    """Set options of glibc's memory allocator for this process; return whether it has accepted them."""
    if sys.platform != "linux":
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    accepted = [bool(mallopt(option, value)) for option, value in options.items()]
    return all(accepted)


def raise_file_limit() -> int:
    """Raise the number of files that this process may have open to what the system allows; return the number."""
    try:
        import resource
    except ImportError:  # Windows
        return 512
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems allow less than they state
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return 1_000_000 if soft == resource.RLIM_INFINITY else soft


def default_threads() -> int:
    """Return how many threads to compute with: as in OMP_NUM_THREADS, or the usable cores."""
    chosen = os.environ.get("OMP_NUM_THREADS", "")
    return int(chosen) if chosen.isdigit() and int(chosen) > 0 else usable_cores()


def _read_fields(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def free_port() -> int:
    """Return a TCP port that is free on the loopback interface."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def wait_for_port(host: str, port: int) -> None:
    """Wait until a port is free; the children of a killed server may still use it for some seconds."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    deadline = time.monotonic() + RELEASE_SECONDS
    while True:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
                return
            except OSError as error:
                if time.monotonic() > deadline or error.errno != errno.EADDRINUSE:
                    raise unavailable_port(host, port, error) from None
        time.sleep(0.2)


def unavailable_port(host: str, port: int, error: OSError) -> UnavailableError:
    """Return the error for a port on which this process cannot listen."""
    return UnavailableError(
        f"Port {port} of {host} is not available ({error.strerror}).",
        "Choose another one with --port, or stop the program that uses it.",
    )
