"""The responses that /openapi.json describes for many routes: errors and files."""

from __future__ import annotations

from pydantic import BaseModel

from .store import JsonObject


class ErrorDetail(BaseModel):
    """What is wrong, and what to do next."""

    code: str
    message: str
    hint: str


class ErrorResponse(BaseModel):
    """Every response with a status of 400 and above."""

    error: ErrorDetail


Responses = dict[int | str, JsonObject]

MEANINGS = {
    400: "The content cannot be read or used.",
    401: "The token is missing or unknown.",
    403: "The wrong kind of token.",
    404: "It does not exist.",
    408: "The body did not arrive in time.",
    409: "The current state does not allow it.",
    413: "The body is too large.",
    415: "The content type is wrong.",
    422: "A field is missing or not valid.",
    429: "Too many requests; see Retry-After.",
    503: "The storage or the engine is unavailable or busy; see Retry-After.",
    507: "The quota or the disk is full.",
}


def errors(*statuses: int) -> Responses:
    """Return the errors of a route for /openapi.json, with those that every route has."""
    return {
        status: {"model": ErrorResponse, "description": MEANINGS[status]}
        for status in sorted({*statuses, 408, 413, 429})
    }


def binary(media_type: str) -> Responses:
    """Return a response of bytes for /openapi.json."""
    return {200: {"content": {media_type: {"schema": {"type": "string", "format": "binary"}}}}}


HTML: Responses = {200: {"content": {"text/html": {"schema": {"type": "string"}}}}}
GUARDED = (400, 401, 403, 404, 422, 503)
