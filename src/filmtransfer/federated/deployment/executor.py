"""Runs the app for SuperLink and SuperNode in forks of a process that has imported torch and the app once.

Flower's own executor starts a new Python process for every message, with seconds of imports each time. This one runs
Flower's own worker in a fork of itself, and only this package's app.
"""

from __future__ import annotations

import importlib
import os
from multiprocessing.context import ForkProcess
from pathlib import Path
from queue import Queue
from typing import Literal

from flwr.supercore.constant import TaskType
from flwr.supercore.superexec import run_superexec
from flwr.supercore.superexec.executor.types import ExecutionSpec, LaunchResult

from ... import __version__
from ...errors import InputError
from ...processes import exit_with_parent
from .environment import POLL_VARIABLE, UNKNOWN_APP, CappedSleep, patch
from .fab import fab_digest

Side = Literal["server", "client"]
TASK_TYPES = {"server": TaskType.SERVER_APP, "client": TaskType.CLIENT_APP}
PRELOADED = {
    "server": ("filmtransfer.federated.app", "flwr.superlink.runtime.run_serverapp"),
    "client": ("filmtransfer.federated.app", "flwr.supernode.runtime.run_clientapp"),
}


class ForkExecutor:
    """A Flower executor that runs tasks in forks of this process."""

    def __init__(self, side: Side) -> None:
        self.side: Side = side
        self.running: list[ForkProcess] = []
        for name in PRELOADED[side]:
            importlib.import_module(name)

    def get_eligible_capacity(
        self,
        supported_task_types: set[TaskType],
        *,
        insecure: bool = False,
        root_certificates_path: str | None = None,
    ) -> tuple[set[TaskType], set[str]]:
        """Return the task types that this executor can run now."""
        del insecure, root_certificates_path
        return supported_task_types & {TASK_TYPES[self.side]}, set()

    def wait_for_capacity(self, task_type: TaskType | None = None, **_: object) -> None:
        """Return immediately: there is always capacity."""
        del task_type

    def launch(self, spec: ExecutionSpec) -> LaunchResult:
        """Start a task in a fork."""
        path = spec.root_certificates_path
        certificates = Path(path).read_bytes() if path else None
        process = ForkProcess(
            target=run_task,
            args=(self.side, spec.runtime_api_address, spec.token, spec.insecure, certificates),
        )
        process.start()
        self.running.append(process)
        return LaunchResult.accepted()

    def reconcile(self) -> None:
        """Forget the forks that have ended; ``is_alive`` also collects their exit codes."""
        self.running = [process for process in self.running if process.is_alive()]

    def close(self) -> None:
        """Terminate all running forks."""
        for process in self.running:
            process.terminate()


def run_task(side: Side, address: str, token: str, insecure: bool, certificates: bytes | None) -> None:
    """Run Flower's worker for one message, or on the server for one run; this is called in a fork."""
    exit_with_parent()
    if side == "client":
        from flwr.cli.install import install_from_fab
        from flwr.supernode.runtime import run_clientapp

        from .objects import pull_and_read

        def install_own(content: bytes, *args: object, **options: object) -> Path:
            check_fab(content)
            return Path(install_from_fab(content, *args, **options))  # type: ignore[arg-type]

        patch(run_clientapp, install_from_fab=install_own, pull_and_inflate_object_from_tree=pull_and_read)
        run_clientapp.run_clientapp(
            runtime_api_address=address, token=token, insecure=insecure, certificates=certificates
        )
    else:
        from flwr.superlink.grid import http_grid
        from flwr.superlink.runtime.run_serverapp import run_serverapp

        from .objects import pull_messages

        patch(http_grid, time=CappedSleep(float(os.environ[POLL_VARIABLE])))
        patch(http_grid.HttpGrid, pull_messages=pull_messages)
        run_serverapp(
            log_queue=Queue(),
            runtime_api_address=address,
            token=token,
            insecure=insecure,
            certificates=certificates,
        )


def check_fab(content: bytes) -> None:
    """Refuse any app but that of this package: a server cannot run code of its own on a client."""
    if fab_digest(content) != fab_digest():
        raise InputError(
            UNKNOWN_APP, f"Use the same version as the server; this is filmtransfer {__version__}."
        )


def run_executor(side: Side, address: str, secret: bytes, authority: str | None) -> None:
    """Execute the tasks of the SuperLink or SuperNode at this address until the process is stopped."""
    patch(run_superexec, get_executor=lambda *_, **__: ForkExecutor(side))
    run_superexec.run_superexec(
        runtime_api_address=address,
        insecure=authority is None,
        root_certificates_path=authority,
        superexec_auth_secret=secret,
    )
