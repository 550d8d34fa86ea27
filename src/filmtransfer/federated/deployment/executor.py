"""Runs the app's work for SuperLink and SuperNode, warm: torch and the app are imported once, not for every message.

Flower's own executor starts a new Python for every message, some seconds of imports each time. This one has everything
imported and runs Flower's own worker in a fork of itself. It runs nothing but this package's app.
"""

from __future__ import annotations

import hashlib
import importlib
import os
from multiprocessing.context import ForkProcess
from pathlib import Path
from queue import Queue
from typing import Any

from flwr.supercore.constant import TaskType
from flwr.supercore.superexec import run_superexec
from flwr.supercore.superexec.executor.types import ExecutionSpec, LaunchResult

from ... import __version__
from ...errors import InputError
from ...processes import FORK, exit_with_parent
from .environment import POLL, STRANGE, CappedSleep
from .fab import digest

SIDES = {"server": TaskType.SERVER_APP, "client": TaskType.CLIENT_APP}
WARM = {
    "server": ("filmtransfer.federated.app", "flwr.superlink.runtime.run_serverapp"),
    "client": ("filmtransfer.federated.app", "flwr.supernode.runtime.run_clientapp"),
}


class WarmExecutor:
    """What Flower calls an executor: it is asked what it can run, and told to."""

    def __init__(self, side: str) -> None:
        self.side = side
        self.running: list[ForkProcess] = []
        for name in WARM[side]:
            importlib.import_module(name)

    def get_eligible_capacity(
        self,
        supported_task_types: set[TaskType],
        *,
        insecure: bool = False,
        root_certificates_path: str | None = None,
    ) -> tuple[set[TaskType], set[str]]:
        del insecure, root_certificates_path
        return supported_task_types & {SIDES[self.side]}, set()

    def wait_for_capacity(self, task_type: TaskType | None = None, **_: Any) -> None:
        del task_type

    def launch(self, spec: ExecutionSpec) -> LaunchResult:
        words = {
            "runtime_api_address": spec.runtime_api_address,
            "token": spec.token,
            "insecure": spec.insecure,
            "certificates": Path(spec.root_certificates_path).read_bytes()
            if spec.root_certificates_path
            else None,
        }
        process = FORK.Process(target=work, args=(self.side, words))
        process.start()
        self.running.append(process)
        return LaunchResult.accepted()

    def reconcile(self) -> None:
        self.running = [process for process in self.running if process.is_alive()]  # and the dead are buried

    def close(self) -> None:
        for process in self.running:
            process.terminate()


def work(side: str, words: dict[str, Any]) -> None:
    """In the fork: Flower's worker for one message (or, on the server, for one run)."""
    exit_with_parent()
    if side == "client":
        from flwr.supernode.runtime import run_clientapp

        worker: Any = run_clientapp
        install = worker.install_from_fab

        def install_ours(content: bytes, *args: Any, **options: Any) -> Path:
            refuse_strangers(content)
            return Path(install(content, *args, **options))

        worker.install_from_fab = install_ours
        worker.run_clientapp(**words)
    else:
        from flwr.superlink.grid import http_grid
        from flwr.superlink.runtime.run_serverapp import run_serverapp

        grid: Any = http_grid
        grid.time = CappedSleep(float(os.environ[POLL]))
        run_serverapp(log_queue=Queue(), **words)


def refuse_strangers(content: bytes) -> None:
    """A server decides what is computed only within this package: no code of its own runs here."""
    if hashlib.sha256(content).hexdigest() != digest():
        raise InputError(STRANGE, f"Is it of another version? This is filmtransfer {__version__}.")


def execute(side: str, address: str, secret: bytes, authority: str | None) -> None:
    """Ask the SuperLink or SuperNode at this address for work, for ever."""
    engine: Any = run_superexec
    engine.get_executor = lambda *_, **__: WarmExecutor(side)  # Flower's own are cold, or need Kubernetes
    engine.run_superexec(
        runtime_api_address=address,
        insecure=authority is None,
        root_certificates_path=authority,
        superexec_auth_secret=secret,
    )
