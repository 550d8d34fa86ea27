"""The environment of Flower's processes: its settings, a shared secret, and shorter polling intervals."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path
from types import ModuleType

from ...files import make_folder
from ...processes import LOOPBACK

UNKNOWN_APP = "The server sent another app than that of this package."
SECRET_HEADER = "x-filmtransfer-secret"
POLL_VARIABLE = "FILMTRANSFER_FEDERATE_POLL"  # seconds between two requests of a child process
NODE_VARIABLE = "FILMTRANSFER_FEDERATE_NODE"  # the node id of this client's previous process


class CappedSleep:
    """Python's ``time`` module with a limit on the duration of ``sleep``.

    Flower's processes poll each other every three seconds, which is not configurable.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit

    def sleep(self, seconds: float) -> None:
        """Sleep, but not longer than the limit."""
        time.sleep(min(seconds, self.limit))

    def __getattr__(self, name: str) -> object:
        return getattr(time, name)


def patch(owner: ModuleType | type, **attributes: object) -> None:
    """Replace attributes of a module or class of Flower that has no setting for them."""
    for name, value in attributes.items():
        setattr(owner, name, value)


def flower_environment(home: Path, host: str, poll: float) -> dict[str, str]:
    """Return the environment of Flower's processes: a home folder, polling, no proxy to the own machine."""
    existing = os.environ.get("NO_PROXY") or os.environ.get("no_proxy")
    direct = ",".join(filter(None, (existing, LOOPBACK, "localhost", "::1", host)))
    make_folder(home, parents=True)
    return os.environ | {
        "FLWR_HOME": str(home.resolve()),
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.25",
        "PYTHONUNBUFFERED": "1",
        POLL_VARIABLE: str(poll),
        "NO_PROXY": direct,
        "no_proxy": direct,
    }


def make_secret(path: Path) -> bytes:
    """Write a new secret for the processes of one start; other users of this machine cannot read it."""
    secret = secrets.token_bytes(32)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secret)
    return secret
