"""Locks, ports and cores, without child processes."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from filmtransfer import processes
from filmtransfer.errors import UnavailableError


def test_without_locks_of_files_only_servers_and_clients_are_unavailable(tmp_path, monkeypatch):
    """As on Windows, where the module can be imported and the rest of it used."""
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with (
        pytest.raises(UnavailableError, match="Windows cannot run a server"),
        processes.exclusive_folder(tmp_path / "folder", "server"),
    ):
        pass
    assert not (tmp_path / "folder").exists()


def test_a_port_in_use_is_named(monkeypatch):
    monkeypatch.setattr(processes, "RELEASE_SECONDS", 0.0)
    with socket.socket() as listener:
        listener.bind((processes.LOOPBACK, 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(UnavailableError, match=f"Port {port} of 127.0.0.1 is not available") as caught:
            processes.wait_for_port(processes.LOOPBACK, port)
    assert "--port" in caught.value.hint
    processes.wait_for_port(processes.LOOPBACK, processes.free_port())


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 64),
        ({"cpu.max": "max 100000"}, 64),
        ({"cpu.max": "200000 100000"}, 2),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 64),
        ({"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"}, 4),
        ({"cpu.max": "not a number"}, 64),
    ],
)
def test_a_container_has_the_cores_it_was_given(files, cores, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    (tmp_path / "cpu").mkdir()
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    assert processes.usable_cores(tmp_path) == cores
