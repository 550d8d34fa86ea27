"""The command ``fit`` from a process that has imported everything: a fork for each call, instead of seconds of imports.

Documentation has some sixty commands. ``python -m tests.zygote SOCKET`` waits at a socket; the small script that
``install`` writes sends it its words, folder, environment and open files, hands signals on, and ends as the fork ended.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

CLIENT = """#!{python} -IS
import json, os, signal, socket, sys
door = socket.socket(socket.AF_UNIX)
door.connect({place!r})
words = json.dumps([{kind!r}, sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(door, [len(words).to_bytes(8, "little")], [0, 1, 2])
door.sendall(words)
child = int.from_bytes(door.recv(8), "little")
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, _: os.kill(child, number))
code = door.recv(1)
sys.exit(code[0] if code else 1)
"""


def install(folder: Path, place: Path) -> None:
    """``fit`` and ``python`` for a shell whose PATH begins with this folder; python knows ``-c`` only."""
    folder.mkdir()
    for name in ("fit", "python"):
        script = folder / name
        script.write_text(CLIENT.format(python=sys.executable, place=str(place), kind=name))
        script.chmod(0o755)


def start(place: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.zygote", str(place)],
        cwd=Path(__file__).parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def serve(place: str) -> None:
    import filmtransfer.cli
    import filmtransfer.estimator
    import filmtransfer.report  # noqa: F401

    door = socket.socket(socket.AF_UNIX)
    door.bind(place)
    door.listen(16)
    print("ready", flush=True)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        caller, _ = door.accept()
        length, files, _, _ = socket.recv_fds(caller, 8, 3)
        words = b""
        while len(words) < int.from_bytes(length, "little"):
            words += caller.recv(1 << 16)
        child = os.fork()
        if child == 0:
            door.close()
            caller.close()
            _become(files, *json.loads(words))
        for file in files:
            os.close(file)
        caller.sendall(child.to_bytes(8, "little"))
        threading.Thread(target=_wait, args=(child, caller), daemon=True).start()


def _wait(child: int, caller: socket.socket) -> None:
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    with caller:
        caller.sendall(bytes([code if code >= 0 else 128 - code]))


def _become(files: list[int], kind: str, words: list[str], folder: str, environment: dict[str, str]) -> None:
    code = 1
    try:
        for there, here in enumerate(files):
            os.dup2(here, there)
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = [kind, *words]
        if kind == "python" and words[0] == "-c":
            exec(compile(words[1], "block", "exec"), {"__name__": "__main__"})
            code = 0
        elif kind == "python":
            os.execv(sys.executable, [sys.executable, *words])
        else:
            from filmtransfer.cli import main

            code = main(words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1])
