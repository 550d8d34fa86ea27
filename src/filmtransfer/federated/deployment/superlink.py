"""Flower's SuperLink behind a guard.

SuperLink serves three doors on one port: the fleet (for clients, who sign each request), the runtime (for the process
that runs the server app, which has tokens) and the control (register clients, start runs), which asks nobody who they
are. The guard leaves only the fleet open to the network: whoever could start runs could have code run by clients.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import sys
from pathlib import Path
from typing import Any

from flwr.supercore import http_logging
from flwr.superlink import extensions
from flwr.superlink.cli import flower_superlink
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ...processes import terminate_with_parent
from .environment import SECRET_HEADER

ROUTINE = ("/v1/control/list-runs", "/v1/control/list-nodes")


class Guard:
    """The fleet for everyone, the runtime for this machine, the control for who knows the secret."""

    def __init__(self, app: ASGIApp, secret: bytes) -> None:
        self.app = app
        self.secret = secret

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or (scope["type"] == "http" and self.allows(scope)):
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await PlainTextResponse("Not for you.", status_code=404)(scope, receive, send)

    def allows(self, scope: Scope) -> bool:
        path = scope["path"]
        if path.startswith("/v1/fleet/") or path == "/health":
            return True
        if not _from_here(scope):
            return False
        if path.startswith("/v1/runtime/"):
            return True
        shown = dict(scope["headers"]).get(SECRET_HEADER.encode(), b"")
        return path.startswith("/v1/control/") and hmac.compare_digest(shown, self.secret.hex().encode())


def _from_here(scope: Scope) -> bool:
    """Whether the other end of the connection is this machine."""
    client, server = scope.get("client"), scope.get("server")
    if not client or not server:
        return False
    return client[0] == server[0] or ipaddress.ip_address(client[0]).is_loopback


def _quiet(record: logging.LogRecord) -> bool:
    """We ask for the state every other second; the log need not tell."""
    return record.getMessage() not in ("ControlServicer.ListRuns", "ControlServicer.ListNodes")


def main() -> None:
    terminate_with_parent()
    secret = Path(sys.argv[sys.argv.index("--superexec-auth-secret-file") + 1]).read_bytes()
    guard: Any = Guard
    extensions.get_middleware = lambda: (Middleware(guard, secret=secret),)
    http_logging.ROUTINE_ACCESS_PATHS = http_logging.ROUTINE_ACCESS_PATHS | set(ROUTINE)
    logging.getLogger("flwr").addFilter(_quiet)
    flower_superlink()


if __name__ == "__main__":
    main()
