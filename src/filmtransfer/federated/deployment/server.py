"""``fit federate server``: start a SuperLink and a run of the server app on it, and monitor both.

The folder holds everything: checkpoint and ``rounds.jsonl`` of the federation, Flower's database and home, the logs.
Started again on the same folder, it starts a new Flower run, and the server app resumes from its checkpoint.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import httpx

from ...errors import FitError, InputError, UnavailableError, UpdateFileError, UsageError
from ...formatting import count, list_names, percent
from ...processes import (
    LOOPBACK,
    ChildProcess,
    ForkedProcess,
    exclusive_folder,
    interruptible,
    is_loopback,
    wait_for_port,
)
from ..checkpoint import ROUNDS_FILE, Checkpoint
from ..keys import check_server_keys, public_keys
from ..plan import Plan
from ..records import (
    GLOBAL_UPDATE,
    LOG_FILE,
    RESULT_FILE,
    SEPARATOR,
    DeploymentResult,
    JsonLineReader,
    JsonObject,
    Observer,
    RoundRecord,
    read_json_lines,
)
from .environment import flower_environment, make_secret

if TYPE_CHECKING:
    from .control import ControlClient

START_SECONDS = 120.0
POLL_SECONDS = 1.0  # between two checks of clients and run
UNSPECIFIED = {"0.0.0.0": LOOPBACK, "::": "::1"}  # and the address by which this machine reaches itself


class FederationStoppedError(FitError):
    """Report that the run ended before its last round; its checkpoint is on disk."""


_ERRORS = {kind.exit_code: kind for kind in (UsageError, UpdateFileError, UnavailableError)}


@dataclass(frozen=True)
class Endpoint:
    """The address of the server, and the folder of its keys."""

    host: str
    port: int
    keys: Path | None  # None: no encryption and no authentication

    def check(self) -> None:
        """Raise an error if address or keys cannot be used."""
        if not 0 < self.port < 65536:
            raise UsageError(f"There is no port {self.port}.", "Choose one from 1 to 65535.")
        if self.keys is None:
            if not is_loopback(self.host):
                raise UsageError(
                    f"--insecure is for tests on one machine, and {self.host} can be reached from others.",
                    "Use --host 127.0.0.1, or keys: fit federate keys FOLDER",
                )
            return
        certificate = check_server_keys(self.keys)
        if self.local_host not in certificate.hosts:
            hosts = ", ".join(certificate.hosts)
            raise UsageError(
                f"The certificate in {self.keys} is not for {self.local_host} (it is for {hosts}).",
                f"Create one that is: fit federate keys {self.keys} --host {self.local_host} --renew",
            )
        if not public_keys(self.keys):
            raise InputError(
                f"{self.keys} has no clients.",
                f"Create a key for each: fit federate keys {self.keys} --client NAME",
            )

    @property
    def local_host(self) -> str:
        """The host by which processes of this machine connect."""
        return UNSPECIFIED.get(self.host, self.host)

    @property
    def address(self) -> str:
        """The HOST:PORT by which processes of this machine connect."""
        host = self.local_host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def authority(self) -> Path | None:
        """The certificate of the authority."""
        return self.keys / "ca.crt" if self.keys else None


def run_server(
    plan: Plan,
    folder: str | Path,
    endpoint: Endpoint,
    *,
    test: str | Path | None = None,
    weights: str | Path | None = None,
    poll: float = 3.0,
    observer: Observer | None = None,
) -> DeploymentResult:
    """Run the federation to its end; return the result of the server app with all rounds."""
    path, observer = Path(folder).resolve(), observer or Observer()
    endpoint.check()
    Checkpoint.load(path, plan)  # refuses the folder of another federation before anything is started
    config = {"plan": plan.to_json(), "folder": str(path)}
    config |= {
        name: str(Path(p).resolve()) if p else "" for name, p in (("test", test), ("weights", weights))
    }
    if (finished := finished_result(path, plan, config["test"])) is not None:
        more = "" if finished["rounds"] < plan.rounds else " To continue it, use more rounds."
        observer.log(
            f"The federation in {path} has already finished after {count(finished['rounds'], 'round')}.{more}"
        )
        return _with_rounds(finished, path)
    with interruptible(), exclusive_folder(path, "server"):
        wait_for_port(endpoint.host, endpoint.port)
        observer.log(f"The digest of the plan, for the policies of clients: {plan.digest}")
        (path / RESULT_FILE).unlink(missing_ok=True)
        runner = SuperLinkRunner(endpoint, path, observer, plan.min_clients)
        try:
            runner.run(config, flower_environment(path / "flower", endpoint.local_host, poll))
        finally:
            runner.stop()
    result: DeploymentResult = json.loads((path / RESULT_FILE).read_text(encoding="utf-8"))
    if "error" in result:
        raise _ERRORS.get(result["exit_code"], FederationStoppedError)(result["error"], result["hint"])
    return _with_rounds(result, path)


def finished_result(folder: Path, plan: Plan, test: str) -> DeploymentResult | None:
    """Return the result of a federation that has finished with these arguments; None if there is something to do.

    The folder is of the same federation. It may have fewer rounds than planned: those of its privacy budget.
    """
    try:
        result: DeploymentResult = json.loads((folder / RESULT_FILE).read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError):
        return None
    if "error" in result or not (folder / GLOBAL_UPDATE).exists():
        return None
    if plan.rounds > max(result["rounds"], result.get("planned_rounds", 0)):
        return None
    same = (result.get("assess", plan.assess), result.get("test", test)) == (plan.assess, test)
    return result if same else None


def _with_rounds(result: DeploymentResult, folder: Path) -> DeploymentResult:
    records = cast(list[RoundRecord], read_json_lines(folder / ROUNDS_FILE))
    return {**result, "folder": str(folder), "lines": records}


class SuperLinkRunner:
    """Runs a SuperLink and the server app, and reports what happens."""

    def __init__(self, endpoint: Endpoint, folder: Path, observer: Observer, needed: int) -> None:
        self.endpoint, self.folder, self.log = endpoint, folder, observer.log
        self.observer = observer
        self.needed = needed  # clients that a round needs
        self.children: list[ChildProcess | ForkedProcess] = []
        self.keys: dict[str, bytes] = {}  # of the registered clients
        self.names: dict[
            str, str
        ] = {}  # by node, of clients without a key, once they have described themselves
        self.nodes: Mapping[str, str] = {}  # that are connected
        self.online: set[str] = set()
        self.connecting = 0  # clients whose names are not known yet
        self.phase, self.accuracy = "Starting the run", ""
        self.messages = JsonLineReader(folder / LOG_FILE)

    def run(self, config: Mapping[str, str], environment: Mapping[str, str]) -> None:
        """Start the processes and follow the run until it is finished."""
        # The control client connects from this process.
        os.environ["NO_PROXY"] = os.environ["no_proxy"] = environment["NO_PROXY"]
        endpoint, folder = self.endpoint, self.folder
        secret = make_secret(folder / "secret")
        self.log(f"Starting Flower's SuperLink on {endpoint.host}:{endpoint.port}.")
        superlink = ChildProcess(
            f"{__package__}.superlink", self._superlink_arguments(), folder / "superlink.log", environment
        )
        self.children.append(superlink)
        self.log("Importing Flower and torch.")  # while SuperLink starts
        from .. import app  # noqa: F401  # for the executor, which is a fork of this process
        from .control import ControlClient
        from .executor import run_executor

        with closing(ControlClient(endpoint.address, secret, endpoint.authority)) as control:
            self._wait_until_ready(control, superlink)
            self._register_clients(control)
            control.stop_all()
            arguments = (
                "server", endpoint.address, secret, str(endpoint.authority) if endpoint.authority else None,
            )  # fmt: skip
            self.children.append(
                ForkedProcess(run_executor, arguments, folder / "serverapp.log", environment)
            )
            run = control.start(config)
            self.log(f"The server is listening on {endpoint.host}:{endpoint.port}; its folder is {folder}.")
            self._follow(control, run)

    def stop(self) -> None:
        """Stop all processes."""
        for child in reversed(self.children):
            child.stop()

    def _superlink_arguments(self) -> list[str]:
        endpoint = self.endpoint
        arguments = [
            "--host", endpoint.host, "--port", str(endpoint.port),
            "--database", str(self.folder / "superlink.db"),
            "--isolation", "process", "--superexec-auth-secret-file", str(self.folder / "secret"),
            "--disable-runtime-dependency-installation",
        ]  # fmt: skip
        if endpoint.keys is None:
            return [*arguments, "--insecure"]
        return [
            *arguments, "--enable-supernode-auth",
            "--ssl-ca-certfile", str(endpoint.keys / "ca.crt"),
            "--ssl-certfile", str(endpoint.keys / "server.crt"),
            "--ssl-keyfile", str(endpoint.keys / "server.key"),
        ]  # fmt: skip

    def _register_clients(self, control: ControlClient) -> None:
        """Register the clients of the keys folder if it has changed."""
        folder = self.endpoint.keys
        if folder is None or (keys := public_keys(folder)) == self.keys:
            return
        for name in control.register(keys):
            self.log(
                f"The key of {name} was removed before and cannot be used again. "
                f"Replace it with: fit federate keys {folder} --client {name} --force"
            )
        self.keys = keys

    def _wait_until_ready(self, control: ControlClient, superlink: ChildProcess) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not control.ready():
            if not superlink.alive() or time.monotonic() > deadline:
                raise FederationStoppedError(
                    f"SuperLink did not start: {superlink.last_line()}", f"See {superlink.log}."
                )
            time.sleep(0.1)

    def _follow(self, control: ControlClient, run: int) -> None:
        """Report what happens until the run is finished."""
        while True:
            self._read_messages()
            for child in self.children:
                if not child.alive():
                    raise FederationStoppedError(
                        f"A process of the server ended: {child.last_line()}", f"See {child.log}."
                    )
            try:
                self._register_clients(control)
                nodes = [node for node in control.nodes() if node.status == "online"]
                state = control.state(run)
            except httpx.TransportError:  # SuperLink is busy or has ended, which the next check shows
                time.sleep(POLL_SECONDS)
                continue
            self._read_messages()  # what the app wrote before these clients had connected comes first
            self._report_clients({str(node.node_id): node.name for node in nodes})
            if state.finished:
                self._read_messages()
                if not state.completed or not (self.folder / RESULT_FILE).exists():
                    reason = state.details.removeprefix("ServerApp failed with exception: ")
                    raise FederationStoppedError(
                        reason or "The run was stopped.",
                        f"See {self.folder / 'serverapp.log'}. The checkpoint is kept: start the server again to resume.",
                    )
                return
            time.sleep(POLL_SECONDS)

    def _report_clients(self, nodes: Mapping[str, str]) -> None:
        """Report who has connected and who has disconnected, one after the other.

        ``nodes`` are the connected ones with their names; one without a key is reported once its name is known.
        """
        self.nodes = nodes
        names = [name or self.names.get(node, "") for node, name in nodes.items()]
        connected = {name for name in names if name}
        self.connecting = names.count("")
        for name in sorted(self.online - connected):
            self.online.remove(name)
            self.log(f"{name} is disconnected ({len(self.online)} connected, {self.needed} needed).")
        for name in sorted(connected - self.online):
            self.online.add(name)
            self.log(f"{name} is connected ({len(self.online)} connected, {self.needed} needed).")
        self._report_status()

    def _report_status(self) -> None:
        """Report in one line what is being done, who is connected, and the last accuracy."""
        connected = f"connected: {list_names(self.online, 5)}" if self.online else "no client is connected"
        if self.connecting and not self.online:
            connected = f"{count(self.connecting, 'client')} connecting"
        self.observer.on_status(SEPARATOR.join(filter(None, (self.phase, connected, self.accuracy))))

    def _read_message(self, line: JsonObject) -> None:
        """Report a line of the server app: a complete round, a message, or what it is doing."""
        if "round" in line:
            self._read_round(cast(RoundRecord, line["round"]))
        elif "names" in line:
            self.names |= cast(dict[str, str], line["names"])
            self._report_clients(self.nodes)
        elif "status" in line:
            self.phase = str(line["status"])
            self._report_status()
        else:
            self.log(str(line["message"]))

    def _read_round(self, record: RoundRecord) -> None:
        """Report a complete round."""
        measured = [
            f"{name} {percent(record[name])}" for name in ("accuracy", "personalized") if name in record
        ]
        self.accuracy = ", ".join(measured) or self.accuracy
        self.observer.on_round(record)

    def _read_messages(self) -> None:
        """Report the lines that the server app has appended to its messages."""
        for line in self.messages.new_lines():
            self._read_message(line)
