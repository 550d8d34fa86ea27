"""Authentication by bearer token: a user, the admin, or nobody.

The middleware checks the token before anything else, so no route can forget it, and no byte of an unauthenticated body
is read. The routes decide what a token allows: a user has access to that user's records and nothing else, the admin to
users and quotas and never to their photos or classifiers.
"""

from __future__ import annotations

import hmac

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from ..budgets import MAX_TOKEN
from ..errors import FitError
from .errors import ApiError
from .limits import RateLimiter, Refusals, is_photo, refuse
from .settings import RATE_OF_ADDRESS, ServiceSettings
from .store import Store
from .store.users import hash_token

PROTECTED = "/api/"


class AuthenticationMiddleware:
    """ASGI middleware that refuses unknown tokens and too many requests."""

    def __init__(self, app: ASGIApp, store: Store, settings: ServiceSettings, refusals: Refusals) -> None:
        self.app = app
        self.store = store
        self.refusals = refusals
        self.admin_digest = settings.admin_digest
        self.address_rates = RateLimiter(RATE_OF_ADDRESS * settings.rate)
        self.token_rates = RateLimiter(settings.rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        try:
            self.address_rates.count((scope.get("client") or ("",))[0])
            if scope["path"].startswith(PROTECTED):
                await self.authenticate(scope)
        except FitError as error:
            return await refuse(error, scope, receive, send)
        return await self.app(scope, receive, send)

    async def authenticate(self, scope: Scope) -> None:
        """Set ``user`` and ``admin`` of the request's state, which the routes read."""
        token = _bearer(Headers(scope=scope).get("authorization", ""))
        state = scope.setdefault("state", {})
        state["user"], state["admin"], state["token"] = None, self.is_admin(token), hash_token(token)
        if is_photo(scope):
            self.refusals.check(state["token"])
        if not state["admin"]:
            state["user"] = await to_thread.run_sync(self.store.users.by_token, token)
            if state["user"] is None:
                raise _unknown_token()
        self.token_rates.count("admin" if state["admin"] else state["user"].id)

    def is_admin(self, token: str) -> bool:
        """Return whether this is the admin's token; the comparison takes constant time."""
        return bool(self.admin_digest) and hmac.compare_digest(hash_token(token), self.admin_digest)


def _bearer(header: str) -> str:
    kind, _, token = header.strip().partition(" ")
    token = token.strip()
    if not token:
        raise ApiError(
            401, "no_token", "This needs a token.", "Send the header 'Authorization: Bearer TOKEN'."
        )
    if kind.lower() != "bearer" or len(token) > MAX_TOKEN or not token.isascii():
        raise _unknown_token()
    return token


def _unknown_token() -> ApiError:
    return ApiError(
        401,
        "bad_token",
        "This token is unknown: it was replaced, or the account has been deleted.",
        "Ask the administrator for a new token (fit user token ID) or a new account (fit user add NAME).",
    )
