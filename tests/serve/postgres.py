"""A real PostgreSQL for tests: a temporary cluster on loopback (see the fixture ``cluster``)."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from filmtransfer.processes import free_port

_numbers = itertools.count(1)


class Cluster:
    """A cluster, which tests can stop and start again."""

    def __init__(self, root: Path, primary: Cluster | None = None) -> None:
        """Create a cluster, or a standby of another one."""
        self.root = root
        self.data = root / "data"
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._as: list[str] = []
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            other = _unprivileged()
            os.chown(root, other.pw_uid, other.pw_gid)
            self._as = [
                "setpriv",
                f"--reuid={other.pw_uid}",
                f"--regid={other.pw_gid}",
                "--clear-groups",
            ]
        if primary is None:
            self._run(
                "initdb", "-D", str(self.data), "-U", "fit", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"
            )
        else:
            source = ["-h", "127.0.0.1", "-p", str(primary.port), "-U", "fit"]
            self._run("pg_basebackup", *source, "-D", str(self.data), "-R", "-c", "fast", "--no-sync")

    def start(self, **more: str) -> None:
        """Start with these settings besides those that every test needs."""
        assert self.process is None
        settings: dict[str, object] = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self.root,
            "max_connections": 100,
            "shared_buffers": "16MB",
            "dynamic_shared_memory_type": "mmap",  # in its folder, so that nothing is left when it is killed
            "fsync": "off",  # tests kill programs, not the machine
        }
        arguments = [f"-c{name}={value}" for name, value in (settings | more).items()]
        with (self.root / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self._as, _program("postgres"), "-D", str(self.data), *arguments],
                stdout=log,
                stderr=log,
                cwd=self.root,
            )
        self._run("pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port), patience=200)

    def stop(self, crash: bool = False) -> None:
        """Stop at once, without waiting for sessions; a crash flushes nothing."""
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT if crash else signal.SIGINT)
            self.process.wait(20)
            self.process = None

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Stop all of its processes: connections stay open, and nothing responds."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)  # it starts no more of them
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        children = [int(pid) for file in threads for pid in file.read_text().split()]
        try:
            for pid in children:
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in (*children, self.process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def execute(self, command: str) -> list[tuple[object, ...]]:
        """Return the rows of a command."""
        with psycopg.connect(self._address("postgres"), autocommit=True) as connection:
            cursor = connection.execute(command)
            return cursor.fetchall() if cursor.description else []

    def fresh(self) -> str:
        """Return the URL of a new, empty database."""
        name = f"fit{next(_numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return self._address(name)

    def _address(self, name: str) -> str:
        return f"postgresql://fit@127.0.0.1:{self.port}/{name}"

    def _run(self, program: str, *arguments: str, patience: int = 1) -> None:
        import time

        for _ in range(patience):
            done = subprocess.run(
                [*self._as, _program(program), *arguments], cwd=self.root, capture_output=True, check=False
            )
            if done.returncode == 0:
                return
            time.sleep(0.05)
        pytest.fail(f"{program}: {done.stderr.decode(errors='replace')}{(self.root / 'log').read_text()}")


def _program(name: str) -> str:
    path = shutil.which(name)
    if path is None and shutil.which("pg_config"):
        folder = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=True).stdout
        path = shutil.which(name, path=folder.strip())
    if path is None:
        pytest.fail(f"PostgreSQL's {name} is not on this machine: install the package 'postgresql'.")
    return path


def _unprivileged() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            pass
    pytest.fail("As root, PostgreSQL needs a user 'postgres' or 'nobody' to run as.")
