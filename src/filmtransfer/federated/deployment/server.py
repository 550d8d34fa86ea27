"""``fit federate server``: a SuperLink, the run of our server app on it, and an eye on both.

The folder holds everything: the checkpoint and ``rounds.jsonl`` of the federation, Flower's database and home, the logs.
Started again on the same folder, it makes a new Flower run, and the server app goes on from its checkpoint.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from ...errors import FitError, InputError, UnavailableError, UpdateFileError, UsageError
from ...processes import (
    LOOPBACK,
    ChildProcess,
    ForkedProcess,
    exclusive_folder,
    interruptible,
    is_loopback,
    wait_for_port,
)
from ..app import RESULT, SAID
from ..checkpoint import LINES, Checkpoint
from ..keys import check_server_keys, public_keys
from ..plan import Plan
from .control import ControlClient
from .environment import environment, make_secret
from .executor import execute

START_SECONDS = 120.0
LOOK_SECONDS = 1.0  # between two looks at clients and run
ANYWHERE = {"0.0.0.0": LOOPBACK, "::": "::1"}

Say = Callable[[str], None]
Watch = Callable[[dict[str, Any]], None]


class FederationEnded(FitError):
    """The run ended before its last round; what was learned is on disk."""


_KINDS = {kind.exit_code: kind for kind in (UsageError, UpdateFileError, UnavailableError)}


@dataclass(frozen=True)
class Endpoint:
    """Where the server listens, and what it shows there."""

    host: str
    port: int
    keys: Path | None  # None: no encryption, and everybody may come in

    def check(self) -> None:
        if not 0 < self.port < 65536:
            raise UsageError(f"There is no port {self.port}.", "Choose one from 1 to 65535.")
        if self.keys is None:
            if not is_loopback(self.host):
                raise UsageError(
                    f"--insecure is for trying things out on one machine, and {self.host} can be reached from others.",
                    "Use --host 127.0.0.1, or keys: fit federate keys FOLDER",
                )
            return
        certificate = check_server_keys(self.keys)
        own = ANYWHERE.get(self.host, self.host)
        if own not in certificate.hosts:
            raise UsageError(
                f"The certificate in {self.keys} is not for {own} (it is for {', '.join(certificate.hosts)}).",
                f"Make one that is: fit federate keys {self.keys} --host {own} --renew",
            )
        if not public_keys(self.keys):
            raise InputError(
                f"{self.keys} knows no clients.",
                f"Make a key for each: fit federate keys {self.keys} --client NAME",
            )

    @property
    def address(self) -> str:
        """How processes of this machine get here."""
        host = ANYWHERE.get(self.host, self.host)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def authority(self) -> Path | None:
        return self.keys / "ca.crt" if self.keys else None


def serve(
    plan: Plan,
    folder: str | Path,
    door: Endpoint,
    *,
    test: str | Path | None = None,
    weights: str | Path | None = None,
    poll: float = 3.0,
    say: Say = lambda _: None,
    watch: Watch = lambda _: None,
) -> dict[str, Any]:
    """Run the federation to its end; returns what the server app has to say of it, and all rounds."""
    place = Path(folder).resolve()
    door.check()
    Checkpoint.load(place, plan)  # refuses a folder that holds another federation, before anything is started
    config = {"plan": plan.to_json(), "folder": str(place)}
    config |= {"test": _path(test), "weights": _path(weights)}
    with interruptible(), exclusive_folder(place, "server"):
        wait_for_port(door.host, door.port)
        (place / RESULT).unlink(missing_ok=True)
        secret = make_secret(place / "secret")
        children: list[ChildProcess | ForkedProcess] = []
        try:
            around = environment(place / "flower", ANYWHERE.get(door.host, door.host), poll)
            _run(door, place, secret, config, around, children, say, watch)
        finally:
            for child in reversed(children):
                child.stop()
    result: dict[str, Any] = json.loads((place / RESULT).read_text(encoding="utf-8"))
    if "error" in result:
        raise _KINDS.get(result["exit_code"], FederationEnded)(result["error"], result["hint"])
    return result | {"folder": str(place), "lines": read_lines(place / LINES)}


def _run(
    door: Endpoint,
    place: Path,
    secret: bytes,
    config: Mapping[str, str],
    around: Mapping[str, str],
    children: list[ChildProcess | ForkedProcess],
    say: Say,
    watch: Watch,
) -> None:
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = around[
        "NO_PROXY"
    ]  # the control speaks from this process
    superlink = ChildProcess(
        f"{__package__}.superlink", _superlink_words(door, place), place / "superlink.log", around
    )
    children.append(superlink)
    with ControlClient(door.address, secret, door.authority) as control:
        _wait_until_ready(control, superlink)
        if door.keys:
            _admit(control, door.keys, say)
        control.stop_all()
        words = ("server", door.address, secret, str(door.authority) if door.authority else None)
        children.append(ForkedProcess(execute, words, place / "serverapp.log", around))
        run = control.start(config)
        say(f"The server is open on {door.host}:{door.port}; its state is in {place}.")
        _follow(control, run, door, place, children, say, watch)


def _superlink_words(door: Endpoint, place: Path) -> list[str]:
    words = [
        "--host", door.host, "--port", str(door.port),
        "--database", str(place / "superlink.db"),
        "--isolation", "process", "--superexec-auth-secret-file", str(place / "secret"),
        "--disable-runtime-dependency-installation",
    ]  # fmt: skip
    if door.keys is None:
        return [*words, "--insecure"]
    return [
        *words, "--enable-supernode-auth",
        "--ssl-ca-certfile", str(door.keys / "ca.crt"),
        "--ssl-certfile", str(door.keys / "server.crt"),
        "--ssl-keyfile", str(door.keys / "server.key"),
    ]  # fmt: skip


def _admit(control: ControlClient, folder: Path, say: Say) -> dict[str, bytes]:
    keys = public_keys(folder)
    for name in control.admit(keys):
        say(
            f"The key of {name} was taken out once and cannot come back: "
            f"fit federate keys {folder} --client {name} --force"
        )
    return keys


def _wait_until_ready(control: ControlClient, superlink: ChildProcess) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not control.ready():
        if not superlink.alive() or time.monotonic() > deadline:
            raise FederationEnded(
                f"SuperLink did not start: {superlink.last_line()}", f"See {superlink.log}."
            )
        time.sleep(0.1)


def _follow(
    control: ControlClient,
    run: int,
    door: Endpoint,
    place: Path,
    children: list[ChildProcess | ForkedProcess],
    say: Say,
    watch: Watch,
) -> None:
    """Tell what happens until the run is over."""
    rounds, said = (
        JsonLinesReader(place / LINES, watch),
        JsonLinesReader(place / SAID, lambda line: say(line["said"])),
    )
    online: set[str] = set()
    keys = public_keys(door.keys) if door.keys else {}
    while True:
        said.tell()
        rounds.tell()
        for child in children:
            if not child.alive():
                raise FederationEnded(
                    f"A process of the server ended: {child.last_line()}", f"See {child.log}."
                )
        try:
            if door.keys and public_keys(door.keys) != keys:
                keys = _admit(control, door.keys, say)
            here = {
                node.name or f"client {node.node_id}" for node in control.nodes() if node.status == "online"
            }
            state = control.state(run)
        except httpx.TransportError:  # it is busy, or ends; the next look tells
            time.sleep(LOOK_SECONDS)
            continue
        for name in sorted(here - online):
            say(f"{name} is here ({len(here)} of {len(keys)})." if keys else f"{name} is here ({len(here)}).")
        for name in sorted(online - here):
            say(f"{name} is gone.")
        online = here
        if state.over:
            said.tell()
            rounds.tell()
            if not state.good or not (place / RESULT).exists():
                raise FederationEnded(
                    state.details.removeprefix("ServerApp failed with exception: ") or "The run was stopped.",
                    f"See {place / 'serverapp.log'}. What was learned is kept: start the server again to go on.",
                )
            return
        time.sleep(LOOK_SECONDS)


class JsonLinesReader:
    """The lines that a file of JSON lines has grown by since the last look."""

    def __init__(self, path: Path, tell: Watch) -> None:
        self.path = path
        self.call = tell
        self.told = len(read_lines(path))

    def tell(self) -> None:
        lines = read_lines(self.path)
        for line in lines[self.told :]:
            self.call(line)
        self.told = max(self.told, len(lines))


def read_lines(path: Path) -> list[dict[str, Any]]:
    """A line that is not whole yet is not there yet."""
    found = []
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    for line in text.splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return found


def _path(path: str | Path | None) -> str:
    return str(Path(path).resolve()) if path else ""
