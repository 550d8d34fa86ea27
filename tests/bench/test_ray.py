"""``--ray``: the same rows from a cluster of two machines, also when one of them dies.

Two ``ray start`` on this machine, each with a session of its own that can be killed like a machine.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from filmtransfer.bench.recipe import Run
from filmtransfer.bench.sweep import RunOutcome, run_sweep
from filmtransfer.bench.workers import RayWorkers
from filmtransfer.cli import main
from filmtransfer.errors import UnavailableError, UsageError
from filmtransfer.processes import free_port
from tests.bench.tiny import HereWorkers, make_recipe, make_set, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
pytest.importorskip("ray")

MARK = f"FIT_TEST_CLUSTER={os.getpid()}-{time.time_ns()}"
TIMED = {"seconds", "seconds_in_all"}


class Cluster:
    """A head and a node of one CPU each."""

    def __init__(self, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self.started: list[subprocess.Popen[str]] = []

    def open(self, folder: str) -> None:
        quickly = {
            "health_check_initial_delay_ms": 500,
            "health_check_period_ms": 500,
        }  # how soon a dead node is noticed
        self.start(
            "--head", f"--port={self.address.partition(':')[2]}", f"--temp-dir={folder}",
            f"--ray-client-server-port={free_port()}", "--include-dashboard=false", f"--system-config={json.dumps(quickly)}",
        )  # fmt: skip
        self.start(f"--address={self.address}")

    def start(self, *arguments: str) -> None:
        """On a machine that has much else to do Ray gives up after half a minute: then once more."""
        for _ in range(3):
            output = self.try_to_start(*arguments)
            if not output:
                return
        pytest.fail(f"Ray did not start: {output}")

    def try_to_start(self, *arguments: str) -> str:
        """Return the output if Ray did not start, else an empty string."""
        name, _, value = MARK.partition("=")
        process = subprocess.Popen(
            [
                sys.executable, "-c", "from ray.scripts.scripts import main; main()", "start", *arguments,
                "--num-cpus=1", "--object-store-memory=80000000", "--disable-usage-stats", "--block",
            ],
            env=os.environ | {name: value},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        self.started.append(process)
        assert process.stdout is not None
        output = []
        for line in process.stdout:
            output.append(line)
            if "Ray runtime started" in line:
                break
        else:
            self.started.remove(process)
            process.wait()
            process.stdout.close()
            return "".join(output) or "nothing"
        threading.Thread(target=process.stdout.read, daemon=True).start()  # so that it is never blocked
        return ""

    def lose_node(self) -> None:
        """As if somebody pulled its plug in the middle of a run.

        Each worker is frozen as soon as it is seen at a run: one that ended before the kill would be no loss.
        """
        frozen: list[int] = []

        def freeze() -> bool:
            for pid in set(computing()) - set(frozen):
                tell([pid], signal.SIGSTOP)
                if pid in computing():
                    frozen.append(pid)
                else:  # it had just ended
                    tell([pid], signal.SIGCONT)
            return len(frozen) == 2

        wait_until(freeze)
        os.killpg(self.started[1].pid, signal.SIGKILL)
        tell(frozen, signal.SIGCONT)

    def close(self) -> None:
        for process in reversed(self.started):
            try:  # also those that hide their environment behind a title
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            tell(members(), signal.SIGKILL)  # and whatever left its group
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def members() -> list[int]:
    """Return the running processes of this test's cluster, identified by a variable in their environment."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            marked = MARK.encode() in (folder / "environ").read_bytes().split(b"\0")
            if marked and (folder / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                pids.append(int(folder.name))
        except OSError:  # it ended, or belongs to another user
            pass
    return pids


def computing() -> list[int]:
    """Return those that compute a run; Ray names its processes after their tasks."""
    titles = {pid: Path(f"/proc/{pid}/cmdline") for pid in members()}
    return [
        pid
        for pid, title in titles.items()
        if title.exists() and title.read_bytes().startswith(b"ray::_attempt_on_ray")
    ]


def tell(pids: list[int], word: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, word)
        except ProcessLookupError:  # it went by itself
            pass


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    folder = tempfile.mkdtemp(prefix="ray")  # a socket's path has to be short
    made = Cluster(free_port())
    try:
        made.open(folder)
        yield made
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)
    wait_until(lambda: not members())


@pytest.fixture
def root(tmp_path) -> Path:
    return make_set(tmp_path / "data")


@pytest.mark.long
@pytest.mark.process(seconds=25)
def test_a_sweep_on_two_machines_of_which_one_dies(cluster, root, tmp_path, capsys, monkeypatch):
    with pytest.raises(UsageError, match="has 2 CPUs"):  # in all, but not on one: it would wait for ever
        RayWorkers(cluster.address, root, threads=2)

    pulled = []

    class Unlucky(RayWorkers):
        """Pulls the plug while both machines compute."""

        def next(self) -> RunOutcome:
            if not pulled:
                pulled.append(self.slots)
                cluster.lose_node()
            return super().next()

    monkeypatch.setattr("filmtransfer.bench.workers.RayWorkers", Unlucky)
    code = main(
        [
            "bench", "run", str(make_recipe(tmp_path)), "--data-root", str(root), "--out", str(tmp_path / "out"),
            "--dataset", "drawings", "--dataset", "cifar100", "--ray", cluster.address, "--json",
        ]
    )  # fmt: skip
    captured = capsys.readouterr()
    assert pulled == [2], "a slot for each machine"
    document, err = json.loads(captured.out), captured.err

    # The run that was lost was made again, elsewhere.
    lost = [line for line in err.splitlines() if "Ray lost the run" in line]
    assert lost
    assert all("Trying again" in line for line in lost)

    # A mistake is final there too, and the rest goes on.
    assert code == 3
    assert len(document["failures"]) == 8
    assert all("CIFAR100 is not in" in reason for reason in document["failures"].values())
    assert not re.search("CIFAR100.*Trying again", err)

    # The rows are those of this machine.
    runs = [Run(row["settings"]) for row in document["rows"]]
    here = run_sweep(runs, tmp_path / "here.jsonl", lambda: HereWorkers(root)).rows
    assert len(here) == 8
    for a, b in zip(document["rows"], here, strict=True):
        assert a["key"] == b["key"]
        for name in (a["result"].keys() | b["result"].keys()) - TIMED:
            assert a["result"][name] == b["result"][name], name


@pytest.mark.parametrize(
    "address", ["127.0.0.1:1", "nonsense", "no.such.host.invalid:6379", "127.0.0.1:99999", ""]
)
def test_a_wrong_address_is_an_immediate_error(address, tmp_path):
    """Ray itself would try for minutes."""
    with pytest.raises(UnavailableError, match="There is no Ray cluster at") as caught:
        RayWorkers(address, tmp_path)
    assert "ray start --head" in caught.value.hint
    assert "\n" not in str(caught.value)


def test_without_ray_the_error_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UnavailableError, match=r"\[cluster\]"):
        RayWorkers("auto", tmp_path)
