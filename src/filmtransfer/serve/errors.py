"""Errors as the API says them: one shape, a status that fits, no traceback.

{"error": {"code": "not_found", "message": "what is wrong", "hint": "what to do next"}}
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from ..errors import FitError, InputError, UnavailableError, UpdateFileError, UsageError
from .engine.batcher import QueueFullError
from .store import (
    ConflictError,
    NotFoundError,
    QuotaError,
    StoreError,
    StoreFullError,
    StoreGoneError,
)

log = logging.getLogger("filmtransfer.serve")

RETRY = 5  # seconds after which a service that is short of something may be asked again


class Refusal(FitError):
    """An answer that HTTP has a status for and the rest of the package has no need of."""

    def __init__(
        self, status: int, code: str, message: str, hint: str = "", retry: int | None = None
    ) -> None:
        super().__init__(message, hint)
        self.status = status
        self.code = code
        self.retry = retry


# The first kind that fits is it: children stand before their parents.
KINDS: Sequence[tuple[type[FitError], int, str]] = (
    (NotFoundError, 404, "not_found"),
    (ConflictError, 409, "conflict"),
    (QuotaError, 507, "quota"),
    (StoreFullError, 507, "storage_full"),
    (StoreGoneError, 503, "store_gone"),
    (StoreError, 503, "store_damaged"),
    (QueueFullError, 503, "busy"),
    (UpdateFileError, 400, "bad_file"),
    (UsageError, 422, "bad_field"),
    (InputError, 400, "bad_input"),
    (UnavailableError, 503, "unavailable"),
    (FitError, 400, "bad_request"),
)

CODES = {404: "not_found", 405: "bad_method", 400: "bad_request", 413: "too_large", 415: "bad_type"}
HINTS = {404: "See /openapi.json for what there is.", 405: "See /openapi.json for what can be asked here."}


def answer(
    status: int, code: str, message: str, hint: str = "", retry: int | None = None, close: bool = False
) -> JSONResponse:
    """An error in the one shape."""
    headers = {"Retry-After": str(retry)} if retry is not None else {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if close:
        headers["Connection"] = "close"
    body = {"error": {"code": code, "message": message, "hint": hint}}
    return JSONResponse(body, status_code=status, headers=headers)


def answer_to(error: FitError, close: bool = False) -> JSONResponse:
    """What the package says, with the status that fits."""
    if isinstance(error, Refusal):
        return answer(error.status, error.code, error.message, error.hint, error.retry, close)
    status, code = next((status, code) for kind, status, code in KINDS if isinstance(error, kind))
    if isinstance(error, StoreError) and status == 503:  # where the database stands is for the log
        log.error("%s", error)
        error = StoreError("The storage cannot be used now.", "Try again in a moment.")
    return answer(status, code, error.message, error.hint, RETRY if status == 503 else None, close)


def install(app: FastAPI) -> None:
    """Every error that leaves a route leaves it in the one shape."""

    @app.exception_handler(FitError)
    def of_the_package(request: Request, error: FitError) -> JSONResponse:
        del request
        return answer_to(error)

    @app.exception_handler(RequestValidationError)
    def of_fields(request: Request, error: RequestValidationError) -> JSONResponse:
        del request
        said = "; ".join(dict.fromkeys(_field(one) for one in error.errors()))
        return answer(422, "bad_field", said, "See /openapi.json for what this route takes.")

    @app.exception_handler(HTTPException)
    def of_the_framework(request: Request, error: HTTPException) -> JSONResponse:
        del request
        found = answer(
            error.status_code,
            CODES.get(error.status_code, "bad_request"),
            f"{error.detail}.",
            HINTS.get(error.status_code, ""),
        )
        found.headers.update(error.headers or {})  # Allow, of 405
        return found


def _field(error: dict[str, Any]) -> str:
    where = ".".join(str(part) for part in error["loc"] if part not in ("body", "path", "query"))
    return f"{where[:100] or 'The body'}: {error['msg']}"
