"""Flower's SuperLink with access control.

SuperLink serves three APIs on one port: the fleet API (for clients, which sign each request), the runtime API (for the
process that runs the server app, which has tokens) and the control API (to register clients and start runs), which has
no authentication. The middleware opens only the fleet API to the network: whoever can start runs could have clients run
code.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import sys
from pathlib import Path

from flwr.supercore import http_logging
from flwr.superlink import extensions
from flwr.superlink.cli import flower_superlink
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ...processes import terminate_with_parent
from .environment import SECRET_HEADER, patch

# We poll these every second, so they are not logged.
POLLED_PATHS = {"/v1/control/list-runs", "/v1/control/list-nodes"}
POLLED_CALLS = ("ControlServicer.ListRuns", "ControlServicer.ListNodes")


class AccessControl:
    """Middleware: the fleet API for everyone, the runtime API for this machine, the control API with the secret."""

    def __init__(self, app: ASGIApp, secret: bytes) -> None:
        self.app = app
        self.secret = secret

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or (scope["type"] == "http" and self.allows(scope)):
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await PlainTextResponse("Not found.", status_code=404)(scope, receive, send)

    def allows(self, scope: Scope) -> bool:
        """Return whether a request is allowed."""
        path = scope["path"]
        if path.startswith("/v1/fleet/") or path == "/health":
            return True
        if not _is_local(scope):
            return False
        if path.startswith("/v1/runtime/"):
            return True
        secret = dict(scope["headers"]).get(SECRET_HEADER.encode(), b"")
        return path.startswith("/v1/control/") and hmac.compare_digest(secret, self.secret.hex().encode())


def _is_local(scope: Scope) -> bool:
    """Return whether the request comes from this machine."""
    client, server = scope.get("client"), scope.get("server")
    if not client or not server:
        return False
    return client[0] == server[0] or ipaddress.ip_address(client[0]).is_loopback


def main() -> None:
    """Run a SuperLink with the command-line arguments of Flower's own command."""
    terminate_with_parent()
    secret = Path(sys.argv[sys.argv.index("--superexec-auth-secret-file") + 1]).read_bytes()
    patch(extensions, get_middleware=lambda: (Middleware(AccessControl, secret=secret),))
    patch(http_logging, ROUTINE_ACCESS_PATHS=http_logging.ROUTINE_ACCESS_PATHS | POLLED_PATHS)
    logging.getLogger("flwr").addFilter(lambda record: record.getMessage() not in POLLED_CALLS)
    flower_superlink()


if __name__ == "__main__":
    main()
