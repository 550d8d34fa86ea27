"""End every process of a test run when the run ends, however it ends.

Each run has an id, which all its processes inherit in the environment variable FIT_TEST_RUN, and a folder for their
temporary files. ``python guardian.py ID FOLDER PID…`` waits until one of the processes PID ends, even by SIGKILL, kills
whatever still carries the id, and removes the folder. It imports nothing of the project and starts in milliseconds.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path

VARIABLE = "FIT_TEST_RUN"
PATIENCE = 3.0  # seconds in which the processes of a run that has ended may end by themselves


def members(run: str) -> dict[int, str]:
    """Return the command of each living process of a run by its id, except the caller and its ancestors.

    A process that overwrites its environment with a title (Ray's workers) is known by its parent or its session.
    """
    entry = f"{VARIABLE}={run}".encode()
    own = ancestors()
    marked: set[int] = set()
    related: dict[int, tuple[int, int]] = {}  # parent and session
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, parent, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            if state != "Z" and int(folder.name) not in own:
                related[int(folder.name)] = int(parent), int(session)
                if entry in (folder / "environ").read_bytes().split(b"\0"):
                    marked.add(int(folder.name))
        except OSError:  # It has ended, or belongs to another user.
            pass
    while new := {pid for pid, above in related.items() if pid not in marked and marked.intersection(above)}:
        marked |= new
    return {pid: command(pid) for pid in marked}


def ancestors() -> set[int]:
    """Return the ids of this process and of those above it."""
    pid, pids = os.getpid(), set()
    while pid:
        pids.add(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pids


def command(pid: int) -> str:
    """Return the command line of a process, if it still exists."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "(ended)"
    return b" ".join(arguments).decode(errors="replace").strip()


def kill(run: str) -> None:
    """Kill the processes of a run until none is left; a killed process may just have started another."""
    while pids := members(run):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)


def start(run: str, folder: Path, pids: list[int]) -> None:
    """Start the guardian of a run in a session of its own, without the run's id."""
    arguments = [sys.executable, "-IS", __file__, run, str(folder), *map(str, pids)]
    no_input = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    os.posix_spawn(sys.executable, arguments, {}, file_actions=[no_input], setsid=True)


def main(run: str, folder: str, *pids: str) -> None:
    """Wait for the end of any of the processes and clean up after the run."""
    poll = select.poll()
    for pid in pids:
        try:
            poll.register(os.pidfd_open(int(pid)), select.POLLIN)
        except ProcessLookupError:
            break
    else:
        poll.poll()
    deadline = time.monotonic() + PATIENCE
    while members(run) and time.monotonic() < deadline:
        time.sleep(0.05)
    kill(run)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
