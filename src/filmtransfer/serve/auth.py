"""Who asks: a user by their token, the admin by theirs, or nobody.

The token of a request is looked at before anything else of it, at the door, so no route can forget it and no byte of
a stranger's body is read. What a token may do is said by the route: users have their own things and nothing else,
the admin has users and quotas and never what is theirs.
"""

from __future__ import annotations

import hmac
from typing import Annotated

from anyio import to_thread
from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from ..errors import FitError
from .errors import Refusal, answer_to
from .limits import Rates, refuse
from .settings import AT_ONE_ADDRESS, Settings, hash_token
from .store import Store, User

PROTECTED = "/api/"
MAX_TOKEN = 200  # characters


def _no_token() -> Refusal:
    return Refusal(401, "no_token", "This needs a token.", "Send the header 'Authorization: Bearer TOKEN'.")


def _bad_token() -> Refusal:
    return Refusal(401, "bad_token", "This token is not known.", "Ask for a new one: fit user token ID.")


class Door:
    """ASGI middleware: too many requests and unknown tokens go no further than this."""

    def __init__(self, app: ASGIApp, store: Store, settings: Settings) -> None:
        self.app = app
        self.store = store
        self.admin = settings.admin
        self.addresses = Rates(AT_ONE_ADDRESS * settings.rate)
        self.tokens = Rates(settings.rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        try:
            self.addresses.count((scope.get("client") or ("",))[0])
            if scope["path"].startswith(PROTECTED):
                await self.admit(scope)
        except FitError as error:
            return await refuse(answer_to(error, close=True), scope, receive, send)
        return await self.app(scope, receive, send)

    async def admit(self, scope: Scope) -> None:
        """Find out who it is; what the routes need to know goes into the request's state."""
        token = _bearer(Headers(scope=scope).get("authorization", ""))
        state = scope.setdefault("state", {})
        state["user"], state["admin"] = None, self.is_admin(token)
        if not state["admin"]:
            state["user"] = await to_thread.run_sync(self.store.user_of, token)
            if state["user"] is None:
                raise _bad_token()
        self.tokens.count("admin" if state["admin"] else state["user"].id)

    def is_admin(self, token: str) -> bool:
        """Digests are compared, in a time that does not depend on where they differ."""
        return bool(self.admin) and hmac.compare_digest(hash_token(token), self.admin)


def _bearer(header: str) -> str:
    kind, _, token = header.strip().partition(" ")
    token = token.strip()
    if not token:
        raise _no_token()
    if kind.lower() != "bearer" or len(token) > MAX_TOKEN or not token.isascii():
        raise _bad_token()
    return token


_user_scheme = HTTPBearer(scheme_name="user", description="A user's token.", auto_error=False)
_admin_scheme = HTTPBearer(scheme_name="admin", description="The admin's token.", auto_error=False)


def _user(
    request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Security(_user_scheme)]
) -> User:
    user: User | None = request.state.user
    if user is None:
        raise Refusal(
            403, "users_only", "The admin's token does not open what belongs to users.", "Use a user's token."
        )
    return user


def _admin(
    request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Security(_admin_scheme)]
) -> None:
    if not request.state.admin:
        raise Refusal(403, "admin_only", "Only the admin may do this.", "Use the admin's token.")


TheUser = Annotated[User, Depends(_user)]
AdminOnly = Depends(_admin)
