"""A federation of real processes on loopback: server and clients as a user starts them, and their failures."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import numpy as np
import pytest

pytest.importorskip("flwr")

from fastapi import HTTPException
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import ObjectTree, PushObjectRequest
from flwr.proto.node_pb2 import Node
from starlette.responses import PlainTextResponse

from filmtransfer import FewShotClassifier
from filmtransfer.budgets import MAX_OBJECT_BYTES
from filmtransfer.cli import main
from filmtransfer.errors import InputError
from filmtransfer.federated.certificates import make_server_certificate
from filmtransfer.federated.checkpoint import Checkpoint
from filmtransfer.federated.deployment.client import ClientIdentity, SuperNodeRunner
from filmtransfer.federated.deployment.environment import SECRET_HEADER, flower_environment
from filmtransfer.federated.deployment.executor import check_fab
from filmtransfer.federated.deployment.fab import build_fab
from filmtransfer.federated.deployment.server import Endpoint, SuperLinkRunner, finished_result
from filmtransfer.federated.deployment.superlink import AccessControl, ReplyBudget
from filmtransfer.federated.keys import make_client_key, make_keys
from filmtransfer.federated.plan import DEPLOYED_PRESETS, named_plan
from filmtransfer.federated.records import LOG_FILE, Observer, append_json_line
from filmtransfer.processes import free_port
from tests.conftest import picture

TIMEOUT = 300.0  # seconds until a test fails; no duration is measured
CLASSES = ("disc", "bars", "plain")


class Federation:
    """The processes of one test, in one folder; none of them outlives it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        make_keys(folder / "keys", clients=("anna", "bob", "carla"))
        for name, classes, shots in (
            ("anna", CLASSES, 3), ("bob", ("disc", "bars"), 5), ("carla", ("bars", "plain"), 2), ("test", CLASSES, 2)
        ):  # fmt: skip
            for label in classes:
                images = folder / "images" / name / label
                images.mkdir(parents=True)
                for i in range(shots):
                    kind = CLASSES.index(label)
                    picture(kind, 1000 * kind + 100 * len(name) + i, size=32).save(images / f"{i}.png")

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.out").open("ab") as out, (self.folder / f"{name}.err").open("ab") as err:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", "filmtransfer", "federate", *arguments],
                stdout=out, stderr=err, stdin=subprocess.DEVNULL, cwd=self.folder, start_new_session=True,
            )  # fmt: skip
        return self.running[name]

    def start_server(self, rounds: int = 4, min_clients: int = 2) -> subprocess.Popen[bytes]:
        plan = ("image_size=32", "steps=1", "evaluate_every=0", f"timeout={3 * TIMEOUT}")
        return self.start(
            "server", "server", "--keys", "keys", "--folder", "state", "--host", "127.0.0.1",
            "--port", str(self.port), "--rounds", str(rounds), "--clients-per-round", "3", "--min-clients", str(min_clients),
            "--test", "images/test", "--poll", "0.5", "--json", *(w for pair in plan for w in ("--set", pair)),
        )  # fmt: skip

    def start_client(
        self, name: str, images: str | None = None, policy: str | None = None
    ) -> subprocess.Popen[bytes]:
        chosen = ()
        if policy is not None:
            (self.folder / f"{name}.toml").write_text(policy)
            chosen = ("--policy", f"{name}.toml")
        return self.start(
            name, "client", "--data", f"images/{images or name}", "--keys", f"keys/clients/{name}", "--name", name,
            "--server", f"127.0.0.1:{self.port}", "--state", f"state-{name}", "--poll", "0.5", *chosen,
        )  # fmt: skip

    def ask(self, path: str) -> int:
        trusted = ssl.create_default_context(cafile=str(self.folder / "keys" / "ca.crt"))
        return httpx.get(f"https://127.0.0.1:{self.port}{path}", verify=trusted, trust_env=False).status_code

    def output(self, name: str) -> str:
        return "".join(
            (self.folder / f"{name}.{end}").read_text()
            for end in ("out", "err")
            if (self.folder / f"{name}.{end}").exists()
        )

    def rounds(self) -> dict[int, dict]:
        lines = self.folder / "state" / "rounds.jsonl"
        if not lines.exists():
            return {}
        records = [json.loads(line) for line in lines.read_text().splitlines()]
        return {record["round"]: record for record in records if record["round"]}

    def until(self, what: str, happens: Callable[[], object]) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not happens():
            if time.monotonic() > deadline:
                pytest.fail(f"Not in {TIMEOUT:.0f} s: {what}\n{self.logs()}")
            for name, process in self.running.items():
                if name == "server" and process.poll() not in (None, 0, -signal.SIGKILL):
                    pytest.fail(f"The server ended before: {what}\n{self.logs()}")
            time.sleep(0.05)

    def logs(self) -> str:
        files = [*self.folder.glob("*.err"), *self.folder.glob("*.out"), *self.folder.glob("state*/*.log")]
        return "\n".join(f"== {f.relative_to(self.folder)}\n{f.read_text()[-3000:]}" for f in files)

    def supernode_log(self, name: str) -> Path:
        return self.folder / f"state-{name}" / "supernode.log"

    def freeze(self, name: str) -> tuple[int, int]:
        """Stop a client's worker between two messages, so that it cannot handle the next one.

        Returns the worker's process id and how many rounds the client has worked on.
        """
        fork = f"--state state-{name} "
        log = self.supernode_log(name)
        client = self.running[name].pid
        frozen: list[int] = []

        def stopped() -> bool:
            executor = next((pid for pid, parent in processes(fork) if parent == client), None)
            if executor is None:
                return False
            os.kill(executor, signal.SIGSTOP)
            idle = executor not in {parent for _, parent in processes(fork)}
            text = log.read_text()
            if idle and text.count("Receiving: ") == text.count("Sent successfully"):
                frozen[:] = [executor, text.count("Receiving: train.round")]
                return True
            os.kill(executor, signal.SIGCONT)
            return False

        self.until(f"{name} is idle", stopped)
        return frozen[0], frozen[1]

    def alive(self) -> list[int]:
        """Return the processes with our folder or port in their arguments."""
        patterns = (str(self.folder), f"--port {self.port} ", f"127.0.0.1:{self.port} ")
        return [pid for pattern in patterns for pid, _ in processes(pattern)]

    def stop(self) -> None:
        for pid in self.alive():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for process in self.running.values():
            process.wait()


def processes(pattern: str) -> list[tuple[int, int]]:
    """Return ids and parent ids of the running processes with this in their arguments."""
    listed = subprocess.run(
        ["ps", "-ww", "-eo", "pid=,ppid=,stat=,args="], capture_output=True, text=True, check=True
    )
    running = []
    for line in listed.stdout.splitlines():
        pid, parent, state, arguments = line.split(None, 3)
        if "filmtransfer" in arguments and pattern in f"{arguments} " and not state.startswith("Z"):
            running.append((int(pid), int(parent)))
    return running


@pytest.fixture
def federation(tmp_path) -> Iterator[Federation]:
    processes = Federation(tmp_path)
    try:
        yield processes
    finally:
        processes.stop()


@pytest.mark.process(seconds=60)
def test_three_clients_one_killed_the_server_killed_and_an_unknown_client_refused(federation):
    """One federation with all of these events, since its processes take long to start."""
    make_client_key(federation.folder / "keys", "dave")
    (federation.folder / "keys" / "nodes" / "dave.pub").unlink()  # the server does not know the key

    for name in ("anna", "bob", "carla"):
        federation.start_client(name)
    federation.start_server()

    # An unknown client connects, too, and is refused while the others work.
    federation.until(
        "the server is listening", lambda: "The server is listening" in federation.output("server")
    )
    assert federation.ask("/health") == 200
    assert federation.ask("/v1/control/list-nodes") == 404  # the control API needs the secret
    unknown = federation.start_client("dave", images="anna")

    # Unequal clients with different classes share a round.
    everyone = ["anna", "bob", "carla"]
    federation.until(
        "all in a round", lambda: any(r["clients"] == everyone for r in federation.rounds().values())
    )
    first = next(r for r in federation.rounds().values() if r["clients"] == everyone)
    assert not first["missing"]
    assert not first["refused"]
    assert first["examples"] == 3 * 3 + 2 * 5 + 2 * 2

    # One client is killed while it works: the round completes without it and reports it as missing.
    executor, trained = federation.freeze("carla")
    federation.until(
        "carla gets a round",
        lambda: federation.supernode_log("carla").read_text().count("Receiving: train.round") > trained,
    )
    assert unknown.wait(TIMEOUT) == 4
    assert "The server refuses dave: it does not know this key" in federation.output("dave")
    for pid in (federation.running["carla"].pid, executor):
        os.kill(pid, signal.SIGKILL)
    federation.until("a round without carla", lambda: any(r["missing"] for r in federation.rounds().values()))
    incomplete = next(record for record in federation.rounds().values() if record["missing"])
    assert incomplete["missing"] == {"carla": "it stopped responding"}
    assert incomplete["examples"] == 3 * 3 + 2 * 5

    # The server is killed: its processes end with it; started again it resumes, with the connected clients.
    before = federation.rounds()
    federation.running["server"].kill()
    federation.running["server"].wait()
    federation.until("all of the server has ended", lambda: not processes(f"--port {federation.port} "))
    federation.until("all of carla has ended", lambda: not processes(f"{federation.folder}/state-carla"))
    (federation.folder / "server.out").unlink()
    again = federation.start_server()
    assert again.wait(TIMEOUT) == 0, federation.logs()
    after = federation.rounds()
    assert sorted(after) == [1, 2, 3, 4]
    assert all(after[number] == record for number, record in before.items())
    assert "Resuming after round" in federation.output("server")

    # Server and clients have their classifiers.
    result = json.loads((federation.folder / "server.out").read_text())
    assert result["rounds"] == 4
    assert result["classes"] == sorted(CLASSES)
    assert result["clients"] == ["anna", "bob"], federation.logs()
    trained = FewShotClassifier.load(federation.folder / "state" / "global.safetensors")
    assert list(trained.classes_) == sorted(CLASSES)
    personal = FewShotClassifier.load(federation.folder / "state-bob" / "personal.safetensors")
    assert list(personal.classes_) == ["bars", "disc"]

    # It is calibrated by sums of the clients' scores, and can reject.
    assert result["estimate"]["images"] == 3 * 3 + 2 * 5
    assert result["estimate"]["unseen"] is False
    assert trained.update_.temperature == result["temperature"] != 1
    assert trained.update_.ood.sums.count == 3 * 3 + 2 * 5
    assert personal.update_.ood is not None

    # The clients report their rounds.
    assert "Round 4 of 4: training on 9 images." in federation.output("anna")
    assert "Round 4 of 4: loss " in federation.output("anna")

    # The clients end when the server has stopped after the last request.
    for name in ("anna", "bob"):
        assert federation.running[name].wait(TIMEOUT) == 0, federation.logs()
        assert "The federation is finished" in federation.output(name)
        assert "Traceback" not in federation.output(name)
    assert not federation.alive()


@pytest.mark.long
@pytest.mark.process(seconds=60)
def test_clients_refuse_what_their_policies_do_not_allow_and_the_others_continue(federation):
    """One federation with all refusals, since its processes take long to start."""
    make_client_key(federation.folder / "keys", "dave")
    federation.start_server(rounds=500, min_clients=1)
    federation.start_client("anna")
    federation.until("anna is connected", lambda: "anna is connected" in federation.output("server"))
    federation.start_client("bob", policy='releases = ["train", "scores", "evaluation"]')
    federation.start_client("carla", policy="max_rounds = 1")
    policy = ["secure_aggregation_only = true", "min_clients = 3", f'plans = ["{"0" * 64}"]']
    policy += ["epsilon = 8.0", "delta = 1e-5", 'releases = ["train"]']
    federation.start_client("dave", images="anna", policy="\n".join(policy))  # it reads no image

    refusals = (
        "dave is refused: its policy does not allow this plan; allows secure aggregation only; allows no round of fewer than "
        "3 clients; requires differential privacy with ε of at most 8. The plan has the digest ",
        ", secure=false, min_clients=1, no privacy.",
        "carla refused: its policy allows no more rounds (max_rounds = 1).",
    )
    for line in refusals:
        federation.until(line, lambda line=line: line in federation.output("server"))
    federation.running["dave"].send_signal(signal.SIGINT)
    assert federation.running["dave"].wait(TIMEOUT) == 130

    # A policy that is changed while its client runs allows nothing, until it is as before.
    policy = federation.folder / "carla.toml"
    policy.write_text("max_rounds = 100")
    changed = "carla refused: its policy has changed since it was started."
    federation.until(changed, lambda: changed in federation.output("server"))
    policy.write_text("max_rounds = 1")

    federation.until("bob", lambda: any("bob" in r["contributed"] for r in federation.rounds().values()))
    answered = [r["contributed"] for r in federation.rounds().values()]
    assert sum("carla" in names for names in answered) == 1
    assert not any("dave" in names for names in answered)
    ledger = json.loads((federation.folder / "state-carla" / "ledger.json").read_text())
    assert ledger["releases"] == {"train": 1}

    federation.running["server"].send_signal(signal.SIGINT)
    assert federation.running["server"].wait(TIMEOUT) == 130
    again = federation.start_server(rounds=1, min_clients=3)
    federation.until("the server has finished", lambda: again.poll() is not None)
    assert "bob refused: its policy allows no statistics." in federation.output("server")
    assert "The request is refused: its policy allows no statistics." in federation.output("bob")
    assert "Traceback" not in "".join(federation.output(name) for name in ("server", *federation.running))

    # The folder of a client's state is bound to its policy.
    federation.running["bob"].send_signal(signal.SIGINT)
    assert federation.running["bob"].wait(TIMEOUT) in (0, 130)
    assert federation.start_client("bob").wait(TIMEOUT) == 2
    assert "A policy is missing: there is one that" in federation.output("bob")
    assert federation.start_client("bob", policy="max_rounds = 100").wait(TIMEOUT) == 2
    assert "bob.toml is not the policy that" in federation.output("bob")


@pytest.mark.process(seconds=20)
@pytest.mark.parametrize(
    "moment", ["Starting the server", "Importing Flower and torch", "Waiting for clients"]
)
def test_an_interrupted_server_says_so_and_leaves_no_process(federation, moment):
    server = federation.start_server()
    federation.until(moment, lambda: moment in federation.output("server"))
    server.send_signal(signal.SIGINT)
    assert server.wait(TIMEOUT) == 130
    output = federation.output("server")
    assert output.splitlines().count("fit: Interrupted.") == 1
    assert ("start the server again with the same arguments" in output) == (moment != "Starting the server")
    assert "Traceback" not in output
    assert "nan" not in output.lower()
    assert not federation.alive()


@pytest.mark.process(seconds=20)
def test_an_interrupted_client_says_so_and_leaves_no_process(federation):
    federation.start_server()
    federation.until("keys are registered", lambda: "Waiting for clients" in federation.output("server"))
    client = federation.start_client("anna")
    federation.until("anna is connected", lambda: "Connected to" in federation.output("anna"))
    client.send_signal(signal.SIGINT)
    assert client.wait(TIMEOUT) == 130
    assert federation.output("anna").splitlines().count("fit: Interrupted.") == 1
    federation.until("all of anna has ended", lambda: not processes(f"{federation.folder}/state-anna"))
    federation.running["server"].terminate()
    assert federation.running["server"].wait(TIMEOUT) == 130
    assert not federation.alive()


# Certificates that are not trusted.


@contextmanager
def tls_server(folder: Path) -> Iterator[int]:
    """Serve a certificate, as SuperLink does."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def greet() -> None:
            while True:
                try:
                    plain, _ = listening.accept()
                except OSError:
                    return
                with plain:
                    try:
                        context.wrap_socket(plain, server_side=True).close()
                    except OSError:
                        pass

        threading.Thread(target=greet, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def keys(tmp_path) -> Path:
    make_keys(tmp_path / "keys", clients=["anna"])
    return tmp_path / "keys"


def run_client(capsys, keys: Path, data: Path, port: int, *arguments: str) -> tuple[int, str]:
    code = main(
        ["federate", "client", "--data", str(data), "--keys", str(keys / "clients" / "anna"), "--name", "anna",
         "--server", f"127.0.0.1:{port}", "--state", str(data.parent / "state"), *arguments]
    )  # fmt: skip
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return code, captured.err


def test_flower_gets_the_users_own_settings(tmp_path, monkeypatch):
    monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "1")
    environment = flower_environment(tmp_path / "home", "127.0.0.1", 1.0)
    assert environment["FLWR_TELEMETRY_ENABLED"] == "1"
    assert environment["FLWR_DISABLE_UPDATE_CHECK"] == "1"  # the default
    assert environment["FLWR_HOME"] == str(tmp_path / "home")


def test_a_wrong_authority_is_refused(keys, tmp_path, photo_folder, capsys):
    other = tmp_path / "other"
    make_keys(other)
    with tls_server(other) as port:
        code, err = run_client(capsys, keys, photo_folder(), port)
    assert code == 4
    assert "not signed by the authority" in err


def test_an_expired_certificate_is_refused_by_the_client(keys, photo_folder, capsys):
    now = datetime.now(UTC)
    make_server_certificate(keys, not_before=now - timedelta(days=3), not_after=now - timedelta(days=1))
    with tls_server(keys) as port:
        code, err = run_client(capsys, keys, photo_folder(), port)
    assert code == 4
    assert "has expired" in err
    assert "--renew" in err


def test_a_certificate_for_another_host_is_refused(keys, photo_folder, capsys, monkeypatch):
    monkeypatch.setattr("filmtransfer.federated.certificates.LOCAL_HOSTS", ("elsewhere.example",))
    make_server_certificate(keys)
    with tls_server(keys) as port:
        code, err = run_client(capsys, keys, photo_folder(), port)
    assert code == 4
    assert "for another name" in err


def test_a_server_without_tls_is_refused(keys, photo_folder, capsys):
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def greet() -> None:
            plain, _ = listening.accept()
            with plain:
                plain.recv(1000)
                plain.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=greet, daemon=True).start()
        code, err = run_client(capsys, keys, photo_folder(), listening.getsockname()[1])
    assert code == 4
    assert "does not use TLS" in err


def test_a_client_waits_for_its_server(keys, photo_folder, capsys):
    code, err = run_client(capsys, keys, photo_folder(), free_port(), "--wait", "0.2", "--json")
    assert code == 5
    assert "Waiting for a server" in err
    assert "There is no server" in err


# Errors of the user are reported before anything is started.


def test_a_client_checks_its_images_first(keys, tmp_path, photo_folder, capsys):
    (tmp_path / "empty").mkdir()
    for folder, message in (
        (tmp_path / "nowhere", "There is no folder"),
        (tmp_path / "empty", "No images"),
        (photo_folder("one", ("disc",)), "one class only"),
    ):
        code, err = run_client(capsys, keys, folder, 1)
        assert code == 3
        assert message in err


@pytest.mark.parametrize("address", ["nowhere", "host:", "host:0", "host:99999", "https://host:1"])
def test_an_address_needs_a_host_and_a_port(keys, photo_folder, capsys, address):
    code, err = run_client(capsys, keys, photo_folder(), 1, "--server", address)
    assert code == 2
    assert "HOST:PORT" in err


def test_a_client_without_keys_is_refused(photo_folder, capsys):
    arguments = ["federate", "client", "--data", str(photo_folder()), "--name", "anna", "--server"]
    assert main([*arguments, "127.0.0.1:1"]) == 2
    assert "fit federate keys" in capsys.readouterr().err
    assert main([*arguments, "server.example:1", "--insecure"]) == 2
    assert "another one" in capsys.readouterr().err
    assert main([*arguments, "127.0.0.1:1", "--keys", "nowhere"]) == 4
    assert "ca.crt" in capsys.readouterr().err


def run_server(capsys, tmp_path: Path, *arguments: str) -> tuple[int, str]:
    code = main(
        ["federate", "server", "--folder", str(tmp_path / "state"), "--port", str(free_port()), *arguments]
    )
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert not (tmp_path / "state" / "superlink.log").exists(), "something was started"
    return code, captured.err


def test_a_server_checks_its_keys_first(keys, tmp_path, capsys):
    assert run_server(capsys, tmp_path)[0] == 2
    code, err = run_server(capsys, tmp_path, "--keys", str(tmp_path / "nowhere"))
    assert code == 4
    assert "fit federate keys" in err
    code, err = run_server(capsys, tmp_path, "--keys", str(keys), "--host", "192.168.7.7")
    assert code == 2
    assert "--host 192.168.7.7 --renew" in err
    now = datetime.now(UTC)
    make_server_certificate(keys, not_before=now - timedelta(days=3), not_after=now - timedelta(days=1))
    code, err = run_server(capsys, tmp_path, "--keys", str(keys))
    assert code == 4
    assert "expired" in err


def test_a_server_without_clients_is_refused(tmp_path, capsys):
    make_keys(tmp_path / "keys")
    code, err = run_server(capsys, tmp_path, "--keys", str(tmp_path / "keys"))
    assert code == 3
    assert "has no clients" in err


def test_without_keys_only_within_this_machine(tmp_path, capsys):
    code, err = run_server(capsys, tmp_path, "--insecure", "--host", "0.0.0.0")
    assert code == 2
    assert "127.0.0.1" in err


def test_a_used_port_is_named(keys, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("filmtransfer.processes.RELEASE_SECONDS", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = str(listening.getsockname()[1])
        code, err = run_server(capsys, tmp_path, "--keys", str(keys), "--host", "127.0.0.1", "--port", port)
    assert code == 5
    assert f"Port {port}" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--rounds", "-1"), ("--set", "stepz=1"), ("--set", "steps"), ("--preset", "x"), ("--poll", "0"),
        ("--set", "assess=False"), ("--set", "timeout=x"), ("--set", "privacy={delta=2}"),
        ("--preset", "bit"), ("--set", "train=all", "--set", "head=linear"),
    ],
)  # fmt: skip
def test_a_server_checks_its_plan_first(keys, tmp_path, capsys, arguments):
    assert run_server(capsys, tmp_path, "--keys", str(keys), *arguments)[0] == 2


def test_the_presets_in_the_help_are_those_of_the_error(keys, tmp_path, capsys):
    _, err = run_server(capsys, tmp_path, "--keys", str(keys), "--preset", "x")
    assert main(["federate", "server", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    listed = err.partition("Choose one of: ")[2].strip().removesuffix(".")
    presets, papers = text.partition("--preset TEXT ")[2].partition(".")[0].split(", or one of the paper's: ")
    assert {presets, *papers.split(", ")} == set(listed.split(", ")) == {*DEPLOYED_PRESETS}


# A federation that has finished.


@pytest.fixture
def finished(tmp_path) -> Path:
    """Return the folder of a federation after 4 rounds."""
    plan = named_plan("small").override(rounds=4, clients_per_round=0)
    folder = tmp_path / "state"
    Checkpoint(np.zeros(3, np.float32), ["a", "b"], [{"clients": ["anna"]}] * 4).save(folder, plan)
    result = {"rounds": 4, "classes": ["a", "b"], "planned_rounds": 4, "assess": True, "test": ""}
    (folder / "result.json").write_text(json.dumps(result))
    (folder / "global.safetensors").write_bytes(b"")
    return folder


def test_a_finished_federation_prints_its_result_again(finished, keys, capsys):
    before = {path.name: path.read_bytes() for path in finished.iterdir()}
    arguments = ["federate", "server", "--folder", str(finished), "--keys", str(keys), "--rounds", "4"]
    assert main(arguments) == 0
    output = capsys.readouterr().out
    assert f"The federation in {finished} has already finished after 4 rounds." in output
    assert f"Finished after 4 rounds: {finished / 'global.safetensors'}, a classifier of 2 classes." in output
    assert {path.name: path.read_bytes() for path in finished.iterdir()} == before


@pytest.mark.parametrize(
    ("change", "test", "result", "again"),
    [
        ({}, "", {}, True),
        ({"rounds": 3}, "", {}, True),
        ({"rounds": 5}, "", {}, False),
        ({"rounds": 5}, "", {"planned_rounds": 5}, True),  # stopped by the privacy budget
        ({"assess": False}, "", {}, False),
        ({}, "photos", {}, False),
        ({}, "", {"error": "It failed."}, False),
    ],
)
def test_a_federation_continues_where_something_is_left_to_do(finished, change, test, result, again):
    plan = named_plan("small").override(**{"rounds": 4, **change})
    file = finished / "result.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | result))
    assert (finished_result(finished, plan, test) is not None) == again


def test_without_its_classifier_a_federation_has_not_finished(finished):
    (finished / "global.safetensors").unlink()
    assert finished_result(finished, named_plan("small").override(rounds=4), "") is None


# What server and client print.


def test_clients_are_counted_against_those_needed_and_named_once_they_are_known(tmp_path):
    log: list[str] = []
    statuses: list[str] = []
    observer = Observer(log=log.append, on_status=statuses.append)
    runner = SuperLinkRunner(Endpoint("127.0.0.1", 1, None), tmp_path, observer, needed=2)
    runner._report_clients({"1358983444554941163": "", "7": ""})  # without keys Flower does not know the name
    assert not log
    assert "2 clients connecting" in statuses[-1]
    append_json_line(tmp_path / LOG_FILE, {"names": {"1358983444554941163": "anna"}})
    runner._read_messages()
    assert log == ["anna is connected (1 connected, 2 needed)."]
    runner._report_clients({"1358983444554941163": "", "5": "bob"})
    runner._report_clients({"5": "bob"})
    assert log == [
        "anna is connected (1 connected, 2 needed).",
        "bob is connected (2 connected, 2 needed).",
        "anna is disconnected (1 connected, 2 needed).",
    ]


def test_a_client_prints_the_messages_of_its_app_and_nothing_else_of_a_request(tmp_path):
    append_json_line(tmp_path / LOG_FILE, {"message": "of an earlier run"})
    log: list[str] = []
    runner = SuperNodeRunner(
        ClientIdentity("anna", "127.0.0.1:1", None, None), tmp_path, {}, None, log.append
    )
    for stage in ("keys", "shares", "masked", "unmask"):
        runner.read_log_line(f"Receiving: query.secure_{stage} message")
    append_json_line(tmp_path / LOG_FILE, {"message": "Round 1 of 2: training on 9 images."})
    runner.read_messages()
    runner.read_messages()
    assert log == ["Round 1 of 2: training on 9 images."]


def test_a_client_with_the_servers_folder_of_keys_is_sent_to_its_own(keys, photo_folder, capsys):
    arguments = [
        "federate",
        "client",
        "--data",
        str(photo_folder()),
        "--name",
        "anna",
        "--server",
        "127.0.0.1:1",
    ]
    assert main([*arguments, "--keys", str(keys)]) == 4
    err = capsys.readouterr().err
    assert f"There is no file {keys / 'node.key'}." in err
    assert "the folder that the server's owner sent, with ca.crt and node.key" in err
    assert "fit federate keys" not in err


def test_without_flower_the_pip_line_is_printed(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("filmtransfer.cli.federate_deploy.importlib.util.find_spec", lambda name: None)
    assert main(["federate", "keys", str(tmp_path)]) == 5
    assert "[federated]'" in capsys.readouterr().err


# Access control.


@pytest.mark.parametrize(
    ("path", "client", "secret", "allowed"),
    [
        ("/v1/fleet/activate-node", "203.0.113.9", None, True),
        ("/health", "203.0.113.9", None, True),
        ("/v1/control/start-run", "203.0.113.9", b"right", False),
        ("/v1/control/register-node", "127.0.0.1", None, False),
        ("/v1/control/register-node", "127.0.0.1", b"wrong", False),
        ("/v1/control/register-node", "127.0.0.1", b"right", True),
        ("/v1/control/register-node", "192.0.2.1", b"right", True),  # this machine, by its own address
        ("/v1/runtime/acquire-task", "203.0.113.9", None, False),
        ("/v1/runtime/acquire-task", "127.0.0.1", None, True),
        ("/docs", "127.0.0.1", b"right", False),
    ],
)  # fmt: skip
def test_only_the_fleet_is_open_to_the_network(path, client, secret, allowed):
    headers = [] if secret is None else [(SECRET_HEADER.encode(), secret.hex().encode())]
    scope = {"path": path, "client": (client, 1), "server": ("192.0.2.1", 9092), "headers": headers}
    assert AccessControl(None, b"right").allows(scope) == allowed


@pytest.mark.parametrize(
    ("parts", "status"),
    [([b""], 200), ([b"a" * MAX_OBJECT_BYTES], 200), ([b"a", b"b", b"c"], 200), ([b"a" * MAX_OBJECT_BYTES, b"b"], 413)],
)  # fmt: skip
def test_a_request_to_the_fleet_is_not_read_beyond_its_limit(parts, status):
    """Also before the signature of its sender is checked; what is within the limit arrives unchanged."""
    pending = [
        {"type": "http.request", "body": part, "more_body": i < len(parts) - 1}
        for i, part in enumerate(parts)
    ] + [{"type": "http.disconnect"}]
    arrived: list[bytes] = []
    sent: list[dict] = []

    async def receive() -> dict:
        return pending.pop(0)

    async def send(message: dict) -> None:
        sent.append(message)

    async def app(scope, receive, send) -> None:
        arrived.append((await receive())["body"])
        assert (await receive())["type"] == "http.disconnect"
        await PlainTextResponse("")(scope, receive, send)

    scope = {"type": "http", "path": "/v1/fleet/push-object", "headers": []}
    asyncio.run(AccessControl(app, b"")(scope, receive, send))
    assert sent[0]["status"] == status
    assert arrived == ([b"".join(parts)] if status == 200 else [])


@pytest.mark.parametrize(
    ("sources", "objects", "status"), [([7], 3, None), ([8], 3, 403), ([7, 7], 3, 403), ([], 3, 403), ([7], 300, 413)]
)  # fmt: skip
def test_a_client_pushes_one_reply_of_few_objects_in_its_own_name(sources, objects, status):
    tree = ObjectTree(object_id="root", children=[ObjectTree(object_id=str(i)) for i in range(objects)])
    request = PushMessagesRequest(node=Node(node_id=7), message_object_trees=[tree])
    for source in sources:
        request.messages_list.add().metadata.src_node_id = source
    push = ReplyBudget(lambda **_: "stored", pytest.fail).checked_push
    if status is None:
        assert push(request=request, state=None) == "stored"
        return
    with pytest.raises(HTTPException) as raised:
        push(request=request, state=None)
    assert raised.value.status_code == status


def test_the_objects_of_a_reply_are_stored_up_to_their_limit():
    """Each client has its own budget, which begins again with its next reply."""
    budget = ReplyBudget(lambda **_: "stored", lambda **_: "stored", limit=10)

    def push(node: int, size: int) -> object:
        request = PushObjectRequest(node=Node(node_id=node), object_content=b"x" * size)
        return budget.checked_push_object(request=request, state=None)

    reply = PushMessagesRequest(node=Node(node_id=7), message_object_trees=[ObjectTree(object_id="root")])
    reply.messages_list.add().metadata.src_node_id = 7
    for _ in range(2):
        assert budget.checked_push(request=reply, state=None) == "stored"
        assert push(7, 6) == push(7, 4) == push(8, 4) == "stored"
        with pytest.raises(HTTPException) as raised:
            push(7, 1)
        assert raised.value.status_code == 413


def test_a_client_runs_only_the_app_of_this_package():
    check_fab(build_fab())
    with pytest.raises(InputError, match="another app"):
        check_fab(build_fab() + b" ")
