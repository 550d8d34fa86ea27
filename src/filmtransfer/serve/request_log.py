"""The outermost middleware: a request id, security headers, metrics, a log line, and no traceback in a response."""

from __future__ import annotations

import logging
import secrets
import time

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import error_response
from .limits import route_of_body
from .metrics import Metrics

log = logging.getLogger("filmtransfer.serve")

# The page loads its own files and nothing else; uploaded content is never executed.
CONTENT_SECURITY_POLICY = "; ".join(
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
HEADERS = [
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(self), microphone=(), geolocation=()"),
]
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")


class RequestLogMiddleware:
    """ASGI middleware that logs and counts every request, including those that are refused."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id, start = secrets.token_hex(6), time.perf_counter()
        responding = False

        async def send_with_headers(message: Message) -> None:
            nonlocal responding
            if message["type"] == "http.response.start":
                responding = True
                headers = message["headers"] = [*message["headers"], *HEADERS]
                headers.append((b"x-request-id", request_id.encode()))
                if not any(name.lower() == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                self.count(scope, request_id, message["status"], time.perf_counter() - start)
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        except ClientDisconnect:  # before the body was complete
            log.info("%s client disconnected", request_id)
        except Exception:
            log.exception("%s unexpected error", request_id)
            if not responding:
                hint = f"The log has the details of request {request_id}."
                response = error_response(500, "bug", "An unexpected error occurred.", hint)
                await response(scope, receive, send_with_headers)

    def count(self, scope: Scope, request_id: str, status: int, seconds: float) -> None:
        """Count a request when its response starts, so that open event streams are included."""
        method = scope["method"] if scope["method"] in METHODS else "other"
        routed = getattr(scope.get("route"), "path", None)  # the template: without ids
        route = str(routed or route_of_body(scope) or "other")
        self.metrics.requests.labels(method, route, str(status)).inc()
        self.metrics.seconds.labels(method, route).observe(seconds)
        log.info("%s %s %s %d %.0f ms", request_id, method, route, status, 1000 * seconds)
