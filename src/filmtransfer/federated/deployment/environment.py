"""What Flower's processes find around them: its settings, a secret among them, and a clock that does not let them sleep long."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path
from typing import Any

from ...processes import LOOPBACK

STRANGE = "The server sent another app than the one of this package."
SECRET_HEADER = "x-filmtransfer-secret"
POLL = "FILMTRANSFER_FEDERATE_POLL"  # the environment variable that tells children how often to ask
NODE_ID = "FILMTRANSFER_FEDERATE_NODE"  # and this one, what the server called this client the last time


class CappedSleep:
    """Python's ``time``, in which nobody sleeps longer than ``longest``.

    Flower's processes ask each other for news every three seconds, and have no setting for it.
    """

    def __init__(self, longest: float) -> None:
        self.longest = longest

    def sleep(self, seconds: float) -> None:
        time.sleep(min(seconds, self.longest))

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def environment(home: Path, host: str, poll: float) -> dict[str, str]:
    """Flower at home in our folder, silent towards the world, and never through a proxy to its own machine."""
    direct = ",".join(
        filter(
            None,
            (os.environ.get("NO_PROXY") or os.environ.get("no_proxy"), LOOPBACK, "localhost", "::1", host),
        )
    )
    home.mkdir(parents=True, exist_ok=True)
    return os.environ | {
        "FLWR_HOME": str(home.resolve()),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.25",
        "PYTHONUNBUFFERED": "1",
        POLL: str(poll),
        "NO_PROXY": direct,
        "no_proxy": direct,
    }


def make_secret(path: Path) -> bytes:
    """For the processes of one start; nobody else of this machine can read it."""
    secret = secrets.token_bytes(32)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secret)
    return secret
