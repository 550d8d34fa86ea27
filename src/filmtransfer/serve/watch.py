"""What every request gets: an id in the log, headers that keep browsers careful, a count, and no traceback."""

from __future__ import annotations

import logging
import secrets
import time

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import answer
from .metrics import Metrics

log = logging.getLogger("filmtransfer.serve")

# The page loads its own files and nothing else; what a user uploaded is never run.
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob: data:",
        "media-src 'self' blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=()",
}


class Watch:
    """ASGI middleware, the outermost: it sees every request, also those that are refused at the door."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        name, began = secrets.token_hex(6), time.perf_counter()
        answered = False

        async def marked(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = name
                for key, value in HEADERS.items():
                    headers[key] = value
                headers.setdefault("Cache-Control", "no-store")
                self.count(scope, name, message["status"], time.perf_counter() - began)
            await send(message)

        try:
            await self.app(scope, receive, marked)
        except ClientDisconnect:  # in the middle of its own body
            log.info("%s went away", name)
        except Exception:
            log.exception("%s a bug", name)
            if not answered:
                bug = answer(
                    500, "bug", "Something went wrong that should not have.", f"It is in the log as {name}."
                )
                await bug(scope, receive, marked)

    def count(self, scope: Scope, name: str, status: int, seconds: float) -> None:
        """When the answer begins, so that a stream counts too while it is open."""
        method, route = _method(scope), _template(scope)
        self.metrics.requests.labels(method, route, str(status)).inc()
        self.metrics.seconds.labels(method, route).observe(seconds)
        log.info("%s %s %s %d %.0f ms", name, method, route, status, 1000 * seconds)


def _template(scope: Scope) -> str:
    """The route as it is written in the code: without ids, and one word for all that does not exist."""
    return str(getattr(scope.get("route"), "path", "other"))


def _method(scope: Scope) -> str:
    known = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
    return scope["method"] if scope["method"] in known else "other"
