"""The outermost middleware: a request id, security headers, metrics, a log line, and no traceback in a response."""

from __future__ import annotations

import logging
import secrets
import time

from starlette.datastructures import MutableHeaders
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
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=()",
}
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
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                for key, value in HEADERS.items():
                    headers[key] = value
                headers.setdefault("Cache-Control", "no-store")
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
