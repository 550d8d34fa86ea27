"""``fit federate client``: start a SuperNode with this machine's images, and monitor it.

SuperNode polls its server without end. What the user has to know is reported here: that the server is not running yet,
that the connection was lost, that the server refuses this client, that its certificate cannot be trusted.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from ... import __version__
from ...data import LabelledImages
from ...errors import InputError, UnavailableError, UsageError
from ...formatting import count
from ...processes import (
    LOOPBACK,
    ChildProcess,
    ForkedProcess,
    exclusive_folder,
    free_port,
    interruptible,
    is_loopback,
)
from .. import messages
from ..certificates import KeysError
from ..keys import check_client_keys, check_name
from ..policy import Policy, bind_policy
from ..records import LOG_FILE, JsonLineReader, Log
from .environment import NODE_VARIABLE, UNKNOWN_APP, flower_environment, make_secret
from .probe import parse_address, probe_server

POLL_SECONDS = 0.5
FINISHED_SECONDS = (
    5.0  # without an answer, after which a server that announced the end is considered finished
)
REFUSED = "[code: 2004]"  # Flower's code for a node that is not registered, or is already online


@dataclass(frozen=True)
class ClientIdentity:
    """The name and key of a client, and its server."""

    name: str
    server: str  # HOST:PORT
    authority: Path | None  # None: no encryption, for tests
    key: Path | None

    def check(self) -> None:
        """Raise an error if name, address or keys cannot be used."""
        check_name(self.name)
        host, _ = parse_address(self.server)
        if self.authority and self.key:
            check_client_keys(self.authority, self.key)
        elif not is_loopback(host):
            raise UsageError(
                f"--insecure is for tests on one machine, and {host} is another one.",
                "Ask the server's owner for ca.crt and a key of your own.",
            )


def check_images(folder: str | Path) -> LabelledImages:
    """Return the client's images; raise an error if they are not of at least two classes."""
    images = LabelledImages.from_path(folder)
    if len(images.classes) < 2:
        raise InputError(
            f"{folder} has images of one class only, {images.classes[0]}.",
            "A client needs at least two: add a folder of other photos.",
        )
    return images


@dataclass(frozen=True)
class ClientFiles:
    """The files of a client: its images, its state, and what may be beside them."""

    data: Path
    state: Path
    test: Path | None = None
    weights: Path | None = None
    policy: Path | None = None  # what this client sends at most; its process enforces it

    def check(self) -> LabelledImages:
        """Return the images; raise an error if a file cannot be used."""
        if self.policy is not None:
            Policy.load(self.policy)
        images = check_images(self.data)
        if self.test is not None:
            LabelledImages.from_path(self.test)
        return images


def run_client(
    files: ClientFiles,
    identity: ClientIdentity,
    *,
    wait: float | None = None,
    poll: float = 3.0,
    log: Log = lambda _: None,
) -> None:
    """Take part until the federation is finished, the user interrupts it, or it is not possible."""
    identity.check()
    images = files.check()
    folder = files.state.resolve()
    host, port = parse_address(identity.server)
    with interruptible(), exclusive_folder(folder, "client"):
        log(
            f"{identity.name}: {count(len(images.sources), 'image')} of "
            f"{count(len(images.classes), 'class', 'classes')}."
        )
        paths = {key: str(path.resolve()) for key, path in vars(files).items() if path is not None}
        config = paths | {"name": identity.name, "policy_digest": bind_policy(folder, files.policy)}
        if files.policy:
            log(f"Only what {files.policy} allows is sent.")
        (folder / "node.toml").write_text(tomli_w.dumps(config), encoding="utf-8")
        environment = flower_environment(folder / "flower", host, poll)
        runner = SuperNodeRunner(identity, folder, environment, wait, log)
        while not runner.over:
            _wait_for_server(host, port, identity, wait, log)
            runner.run()
        log(f"The federation is finished. The personalized classifier is in {folder}.")


def _wait_for_server(host: str, port: int, identity: ClientIdentity, wait: float | None, log: Log) -> None:
    deadline = None if wait is None else time.monotonic() + wait
    reported = False
    while reason := probe_server(host, port, identity.authority):
        if deadline is not None and time.monotonic() > deadline:
            raise _no_server(identity, reason)
        if not reported:
            log(f"Waiting for a server at {identity.server} ({reason}).")
            reported = True
        time.sleep(POLL_SECONDS)


def _no_server(identity: ClientIdentity, reason: str) -> UnavailableError:
    return UnavailableError(
        f"There is no server at {identity.server} ({reason}).", "Start it first, or wait longer with --wait."
    )


@dataclass(eq=False)
class SuperNodeRunner:
    """Runs a SuperNode, again and again after a lost connection, and reports what happens."""

    identity: ClientIdentity
    folder: Path
    environment: dict[str, str]
    wait: float | None
    log: Log
    executor: ForkedProcess | None = None
    finished: bool = False  # whether the server has announced the end
    over: bool = False
    disconnected_since: float | None = None

    def __post_init__(self) -> None:
        self.node_file = self.folder / "node_id"
        self.messages = JsonLineReader(self.folder / LOG_FILE)

    def run(self) -> None:
        """Run a SuperNode until it ends; returns if the federation is over, or to be tried again."""
        port = free_port()
        secret = make_secret(self.folder / "secret")
        arguments = [
            "--superlink", self.identity.server, "--host", LOOPBACK, "--port", str(port),
            "--isolation", "process", "--superexec-auth-secret-file", str(self.folder / "secret"),
            "--node-config", str(self.folder / "node.toml"),
        ]  # fmt: skip
        if self.identity.authority:
            arguments += ["--root-certificates", str(self.identity.authority)]
            arguments += ["--auth-supernode-private-key", str(self.identity.key)]
        else:
            arguments += ["--insecure"]
        node_id = self.node_file.read_text() if self.node_file.exists() else ""
        supernode = ChildProcess(
            f"{__package__}.supernode",
            arguments,
            self.folder / "supernode.log",
            self.environment | {NODE_VARIABLE: node_id},
        )
        try:
            self.monitor(supernode, f"{LOOPBACK}:{port}", secret)
        finally:
            if self.executor:
                self.executor.stop()
            supernode.stop()

    def monitor(self, supernode: ChildProcess, address: str, secret: bytes) -> None:
        """Follow SuperNode's log; start the executor once it is connected."""
        self.executor = None
        self.refused, self.connected = False, False
        self.disconnected_since = None
        while supernode.alive():
            for line in supernode.new_lines():
                self.read_log_line(line)
            self.read_messages()
            if self.connected and self.executor is None:
                from .executor import run_executor  # slow to import, and not needed by a refused client

                self.log("Loading torch and waiting for the first request.")

                self.executor = ForkedProcess(
                    run_executor,
                    ("client", address, secret, None),
                    self.folder / "clientapp.log",
                    self.environment,
                )
            if self.executor:
                self._check_executor(self.executor)
            self._check_connection()
            if self.over:
                return
            time.sleep(POLL_SECONDS)
        for line in supernode.new_lines():
            self.read_log_line(line)
        if self.refused:
            raise KeysError(
                f"The server refuses {self.identity.name}: it does not know this key, or it is in use already.",
                "The server's owner registers a key with: fit federate keys FOLDER --client NAME",
            )
        if not self.connected:
            raise KeysError(
                f"The server refuses {self.identity.name}: {supernode.last_line()}",
                f"Check the clocks of both machines. See {supernode.log}.",
            )
        self.log("The connection was lost; trying again.")

    def read_log_line(self, line: str) -> None:
        """Report the lines of SuperNode's log that matter to the user."""
        if REFUSED in line:
            self.refused = True
        elif match := re.search(r"SuperNode ID: (\d+)", line):
            self.node_file.write_text(match[1])
            self.connected = True
            self.log(f"Connected to {self.identity.server} as {self.identity.name}.")
        elif "Connection attempt failed" in line and self.disconnected_since is None:
            self.disconnected_since = time.monotonic()
            if not self.finished:
                self.log("The server does not answer; waiting for it.")
        elif "Connection successful" in line:
            self._report_connection()
        elif match := re.search(r"Receiving: (\S+) message", line):
            self._report_connection()
            self.finished = match[1] == messages.FINISH

    def read_messages(self) -> None:
        """Report what the client app does: it appends a line to its messages."""
        for line in self.messages.new_lines():
            self.log(str(line["message"]))

    def _report_connection(self) -> None:
        if self.disconnected_since is not None:
            self.disconnected_since = None
            if not self.finished:
                self.log("The server answers again.")

    def _check_executor(self, executor: ForkedProcess) -> None:
        if not executor.alive():
            raise UnavailableError(
                f"A process of the client ended: {executor.last_line()}", f"See {executor.log}."
            )
        if any(UNKNOWN_APP in line for line in executor.new_lines()):
            raise InputError(
                UNKNOWN_APP, f"Use the same version as the server; this is filmtransfer {__version__}."
            )

    def _check_connection(self) -> None:
        """End if the server has stopped after the last round; raise an error if it is unreachable for too long."""
        elapsed = 0.0 if self.disconnected_since is None else time.monotonic() - self.disconnected_since
        limit = FINISHED_SECONDS if self.finished else self.wait
        if limit is None or elapsed <= limit:
            return
        if not probe_server(*parse_address(self.identity.server), self.identity.authority):
            self._report_connection()  # SuperNode does not always log it
        elif self.finished:
            self.over = True
        else:
            raise _no_server(self.identity, "it does not answer any more")
