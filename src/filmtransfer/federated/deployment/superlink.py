"""Flower's SuperLink with access control.

SuperLink serves three APIs on one port: the fleet API (for clients, which sign each request), the runtime API (for the
process that runs the server app, which has tokens) and the control API (to register clients and start runs), which has
no authentication. The middleware opens only the fleet API to the network: whoever can start runs could have clients run
code. It also limits a request's size, and a client sends replies in its own name only.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from fastapi import HTTPException
from flwr.proto.fleet_pb2 import PushMessagesRequest, PushMessagesResponse
from flwr.proto.message_pb2 import PushObjectRequest, PushObjectResponse
from flwr.server.superlink.linkstate import LinkState
from flwr.supercore import http_logging
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.superlink import extensions
from flwr.superlink.cli import flower_superlink
from flwr.superlink.servicer.fleet import fleet_handlers
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...budgets import MAX_MESSAGE_BYTES, MAX_OBJECT_BYTES, MAX_OBJECTS
from ...processes import terminate_with_parent
from .environment import SECRET_HEADER, patch

FLEET = "/v1/fleet/"
Push = Callable[..., PushMessagesResponse]
PushObject = Callable[..., PushObjectResponse]

# We poll these every second, so they are not logged.
POLLED_PATHS = {"/v1/control/list-runs", "/v1/control/list-nodes"}
POLLED_CALLS = ("ControlServicer.ListRuns", "ControlServicer.ListNodes")


class AccessControl:
    """Middleware: the fleet API for everyone, the runtime API for this machine, the control API with the secret."""

    def __init__(self, app: ASGIApp, secret: bytes) -> None:
        self.app = app
        self.secret = secret

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(FLEET):
            # Flower reads a request before it checks the signature.
            if (body := await _read_body(receive, MAX_OBJECT_BYTES)) is None:
                await PlainTextResponse("Too large.", status_code=413)(scope, receive, send)
            else:
                await self.app(scope, _replaying(body, receive), send)
        elif scope["type"] == "lifespan" or (scope["type"] == "http" and self.allows(scope)):
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await PlainTextResponse("Not found.", status_code=404)(scope, receive, send)

    def allows(self, scope: Scope) -> bool:
        """Return whether a request is allowed."""
        path = scope["path"]
        if path.startswith(FLEET) or path == "/health":
            return True
        if not _is_local(scope):
            return False
        if path.startswith("/v1/runtime/"):
            return True
        secret = dict(scope["headers"]).get(SECRET_HEADER.encode(), b"")
        return path.startswith("/v1/control/") and hmac.compare_digest(secret, self.secret.hex().encode())


async def _read_body(receive: Receive, limit: int) -> bytes | None:
    """Return the body of a request, None if it is larger than the limit or its sender has left."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if len(body) > limit:
            return None
        if not message.get("more_body"):
            return bytes(body)


def _replaying(body: bytes, receive: Receive) -> Receive:
    """Return what receives a body that was read already, and then what follows it."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay


class ReplyBudget:
    """Flower's handlers of replies and their objects, within a budget and for senders in their own name.

    A client sends a reply and then its objects, which SuperLink keeps until the server has read them.
    """

    def __init__(self, push: Push, push_object: PushObject, limit: int = MAX_MESSAGE_BYTES) -> None:
        self.push, self.push_object, self.limit = push, push_object, limit
        self.lock = threading.Lock()
        self.received: dict[int, int] = {}  # bytes of objects since the last reply, by node

    def checked_push(self, request: PushMessagesRequest, state: LinkState) -> PushMessagesResponse:
        """Store a reply of few objects, in the name of its sender."""
        sources = [message.metadata.src_node_id for message in request.messages_list]
        if sources != [request.node.node_id] or len(request.message_object_trees) != 1:
            raise HTTPException(403, "A client sends one reply at a time, in its own name.")
        if sum(1 for _ in iterate_object_tree(request.message_object_trees[0])) > MAX_OBJECTS:
            raise HTTPException(413, f"A reply has at most {MAX_OBJECTS} objects.")
        response = self.push(request=request, state=state)
        with self.lock:
            self.received[request.node.node_id] = 0
        return response

    def checked_push_object(self, request: PushObjectRequest, state: LinkState) -> PushObjectResponse:
        """Store an object of a reply, unless they have more bytes together than a message may have."""
        node = request.node.node_id
        with self.lock:
            self.received[node] = self.received.get(node, 0) + len(request.object_content)
            if self.received[node] > self.limit:
                raise HTTPException(413, f"A reply has at most {self.limit} bytes.")
        return self.push_object(request=request, state=state)


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
    budget = ReplyBudget(fleet_handlers.push_messages, fleet_handlers.push_object)
    patch(fleet_handlers, push_messages=budget.checked_push, push_object=budget.checked_push_object)
    patch(http_logging, ROUTINE_ACCESS_PATHS=http_logging.ROUTINE_ACCESS_PATHS | POLLED_PATHS)
    logging.getLogger("flwr").addFilter(lambda record: record.getMessage() not in POLLED_CALLS)
    flower_superlink()


if __name__ == "__main__":
    main()
