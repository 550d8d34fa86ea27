"""``fit federate client``: a SuperNode with this machine's images, and an eye on it.

SuperNode asks its server for work and never stops asking. What a person has to know is told here: that the server is
not there yet, that it has gone, that it refuses this client, that its certificate cannot be trusted.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from ... import __version__
from ...data import LabelledImages
from ...errors import InputError, UnavailableError, UsageError
from ...processes import (
    LOOPBACK,
    ChildProcess,
    ForkedProcess,
    exclusive_folder,
    free_port,
    interruptible,
    is_loopback,
)
from ..certificates import KeysError
from ..keys import check_client_keys, check_name
from .environment import NODE_ID, STRANGE, environment, make_secret
from .probe import parse_address, reach

LOOK_SECONDS = 0.5
OVER_SECONDS = 30.0  # a server that is gone so long after the end of a federation does not come back
REFUSED = (
    "[code: 2004]"  # Flower's number for a node that is not registered, or is thought to be there already
)
WORK = {
    "query.describe": "The server asks which classes are here, and how many images of each.",
    "train.round": "Training.",
    "evaluate.local": "Trying the personal classifier.",
    "query.statistics": "Summing statistics.",
    "query.finish": "Keeping the personal classifier.",
}

Say = Callable[[str], None]


@dataclass(frozen=True)
class ClientIdentity:
    """Who this client is, and to whom it belongs."""

    name: str
    server: str  # HOST:PORT
    authority: Path | None  # None: no encryption, for trying things out
    key: Path | None

    def check(self) -> None:
        check_name(self.name)
        host, _ = parse_address(self.server)
        if self.authority and self.key:
            check_client_keys(self.authority, self.key)
        elif not is_loopback(host):
            raise UsageError(
                f"--insecure is for trying things out on one machine, and {host} is another one.",
                "Ask the server's owner for ca.crt and a key of your own.",
            )


def check_images(folder: str | Path) -> LabelledImages:
    """The client's images, or a clear line."""
    found = LabelledImages.from_path(folder)
    if len(found.classes) < 2:
        raise InputError(
            f"{folder} has images of one class only, {found.classes[0]}.",
            "A client needs at least two: add a folder of other photos.",
        )
    return found


def join(
    data: str | Path,
    membership: ClientIdentity,
    state: str | Path,
    *,
    test: str | Path | None = None,
    weights: str | Path | None = None,
    wait: float | None = None,
    poll: float = 3.0,
    say: Say = lambda _: None,
) -> None:
    """Take part until the federation is over, somebody ends it (KeyboardInterrupt), or it cannot be."""
    membership.check()
    images = check_images(data)
    if test is not None:
        LabelledImages.from_path(test)
    place = Path(state).resolve()
    host, port = parse_address(membership.server)
    with interruptible(), exclusive_folder(place, "client"):
        say(f"{membership.name}: {len(images.sources)} images of {len(images.classes)} classes.")
        config = {"data": str(Path(data).resolve()), "name": membership.name, "state": str(place)}
        for option, path in (("test", test), ("weights", weights)):
            config |= {option: str(Path(path).resolve())} if path else {}
        (place / "node.toml").write_text(tomli_w.dumps(config), encoding="utf-8")
        node = SuperNodeRunner(membership, place, environment(place / "flower", host, poll), wait, say)
        while not node.over:
            _wait_for_server(host, port, membership, wait, say)
            node.live()
        say(f"The federation is over. What was learned is in {place}.")


def _wait_for_server(host: str, port: int, membership: ClientIdentity, wait: float | None, say: Say) -> None:
    deadline = None if wait is None else time.monotonic() + wait
    told = False
    while why := reach(host, port, membership.authority):
        if deadline is not None and time.monotonic() > deadline:
            raise _no_server(membership, why)
        if not told:
            say(f"Waiting for a server at {membership.server} ({why}).")
            told = True
        time.sleep(LOOK_SECONDS)


def _no_server(membership: ClientIdentity, why: str) -> UnavailableError:
    return UnavailableError(
        f"There is no server at {membership.server} ({why}).", "Start it first, or wait longer with --wait."
    )


class SuperNodeRunner:
    """One SuperNode after the other."""

    def __init__(
        self, membership: ClientIdentity, place: Path, around: dict[str, str], wait: float | None, say: Say
    ) -> None:
        self.membership = membership
        self.place = place
        self.around = around
        self.wait = wait
        self.say = say
        self.node_file = place / "node_id"
        self.executor: ForkedProcess | None = None
        self.finished = False  # whether the server has said that this was all
        self.over = False

    def live(self) -> None:
        """Start SuperNode and watch it until it ends; returns if the federation is over, or to be tried again."""
        port = free_port()
        secret = make_secret(self.place / "secret")
        words = [
            "--superlink", self.membership.server, "--host", LOOPBACK, "--port", str(port),
            "--isolation", "process", "--superexec-auth-secret-file", str(self.place / "secret"),
            "--node-config", str(self.place / "node.toml"),
        ]  # fmt: skip
        if self.membership.authority:
            words += ["--root-certificates", str(self.membership.authority)]
            words += ["--auth-supernode-private-key", str(self.membership.key)]
        else:
            words += ["--insecure"]
        around = self.around | {NODE_ID: self.node_file.read_text() if self.node_file.exists() else ""}
        supernode = ChildProcess(f"{__package__}.supernode", words, self.place / "supernode.log", around)
        try:
            self.watch(supernode, ("client", f"{LOOPBACK}:{port}", secret, None))
        finally:
            if self.executor:
                self.executor.stop()
            supernode.stop()

    def watch(self, supernode: ChildProcess, words: tuple[Any, ...]) -> None:
        """Tell what SuperNode says; start the executor when it is connected, and not before."""
        self.executor = None
        self.refused, self.connected = False, False
        self.alone: float | None = None  # since when the server does not answer
        while supernode.alive():
            for line in supernode.new_lines():
                self.hear(line)
            if self.connected and self.executor is None:
                from .executor import execute  # heavy, and of no use to a client that is refused

                self.executor = ForkedProcess(execute, words, self.place / "clientapp.log", self.around)
            if self.executor and not self.executor.alive():
                raise UnavailableError(
                    f"A process of the client ended: {self.executor.last_line()}", f"See {self.executor.log}."
                )
            if self.executor and any(STRANGE in line for line in self.executor.new_lines()):
                raise InputError(STRANGE, f"Is it of another version? This is filmtransfer {__version__}.")
            self.lose_patience()
            if self.over:
                return
            time.sleep(LOOK_SECONDS)
        for line in supernode.new_lines():
            self.hear(line)
        if self.refused:
            raise KeysError(
                f"The server refuses {self.membership.name}: it does not know this key, or it is in use already.",
                "The server's owner makes a key known with: fit federate keys FOLDER --client NAME",
            )
        if not self.connected:
            raise KeysError(
                f"The server refuses {self.membership.name}: {supernode.last_line()}",
                f"Are the clocks of both machines right? See {supernode.log}.",
            )
        self.say("The connection was lost; trying again.")

    def hear(self, line: str) -> None:
        """Of SuperNode's many lines, those that matter."""
        if REFUSED in line:
            self.refused = True
        elif found := re.search(r"SuperNode ID: (\d+)", line):
            self.node_file.write_text(found[1])
            self.connected = True
            self.say(f"Connected to {self.membership.server} as {self.membership.name}.")
        elif "Connection attempt failed" in line and self.alone is None:
            self.alone = time.monotonic()
            self.say("The server does not answer; waiting for it.")
        elif "Connection successful" in line:
            self.back()
        elif found := re.search(r"Receiving: (\S+) message", line):
            self.back()
            self.finished = found[1] == "query.finish"
            self.say(WORK.get(found[1], f"Working on {found[1]}."))

    def back(self) -> None:
        if self.alone is not None:
            self.alone = None
            self.say("The server is back.")

    def lose_patience(self) -> None:
        """A server that is gone for long: the end, if it had said so, and an error if that was asked for."""
        gone = 0.0 if self.alone is None else time.monotonic() - self.alone
        patience = OVER_SECONDS if self.finished else self.wait
        if patience is None or gone <= patience:
            return
        if not reach(*parse_address(self.membership.server), self.membership.authority):
            self.back()  # SuperNode does not say so whenever it is
        elif self.finished:
            self.over = True
        else:
            raise _no_server(self.membership, "it does not answer any more")
