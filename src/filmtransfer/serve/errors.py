"""HTTP error responses: one format, the right status, no traceback.

{"error": {"code": "not_found", "message": "what is wrong", "hint": "what to do next"}}
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from ..errors import FitError, InputError, UnavailableError, UpdateFileError, UsageError
from .engine.batcher import QueueFullError
from .field_errors import DESCRIPTION, describe_field_errors
from .store import (
    ConflictError,
    NotFoundError,
    QuotaError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
)

log = logging.getLogger("filmtransfer.serve")

RETRY_SECONDS = 5  # sent with status 503


class ApiError(FitError):
    """An error that only HTTP has, with its status and code."""

    def __init__(
        self, status: int, code: str, message: str, hint: str = "", retry: int | None = None
    ) -> None:
        super().__init__(message, hint)
        self.status = status
        self.code = code
        self.retry = retry


# The first matching class decides, so subclasses come before their base classes.
STATUSES: Sequence[tuple[type[FitError], int, str]] = (
    (NotFoundError, 404, "not_found"),
    (ConflictError, 409, "conflict"),
    (QuotaError, 507, "quota"),
    (StoreFullError, 507, "storage_full"),
    (StoreUnavailableError, 503, "store_gone"),
    (StoreError, 503, "store_damaged"),
    (QueueFullError, 503, "busy"),
    (UpdateFileError, 400, "bad_file"),
    (UsageError, 422, "bad_field"),
    (InputError, 400, "bad_input"),
    (UnavailableError, 503, "unavailable"),
    (FitError, 400, "bad_request"),
)

CODES = {404: "not_found", 405: "bad_method", 400: "bad_request", 413: "too_large", 415: "bad_type"}
HINTS = {
    400: DESCRIPTION,  # the body cannot be parsed
    404: "/openapi.json lists the routes.",
    405: "/openapi.json lists the methods of this route.",
}


def error_response(
    status: int,
    code: str,
    message: str,
    hint: str = "",
    retry: int | None = None,
    close: bool = False,
    **details: object,
) -> JSONResponse:
    """Return an error in the format of all errors; ``details`` stand beside the error."""
    headers = {"Retry-After": str(retry)} if retry is not None else {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if close:
        headers["Connection"] = "close"
    body = {"error": {"code": code, "message": message, "hint": hint}, **details}
    return JSONResponse(body, status_code=status, headers=headers)


def response_to(error: FitError, close: bool = False) -> JSONResponse:
    """Return the response to an error of the package."""
    if isinstance(error, ApiError):
        return error_response(error.status, error.code, error.message, error.hint, error.retry, close)
    status, code = next((status, code) for kind, status, code in STATUSES if isinstance(error, kind))
    if isinstance(error, StoreError) and status == 503:  # the address of the database is for the log only
        log.error("%s", error)
        error = StoreError("The storage is not available.", "Try again in a moment.")
    retry = RETRY_SECONDS if status == 503 else None
    return error_response(status, code, error.message, error.hint, retry, close)


def install_handlers(app: FastAPI) -> None:
    """Convert every exception of a route to an error response."""

    @app.exception_handler(FitError)
    def handle_package_error(_: Request, error: FitError) -> JSONResponse:
        return response_to(error)

    @app.exception_handler(RequestValidationError)
    def handle_invalid_fields(_: Request, error: RequestValidationError) -> JSONResponse:
        return error_response(422, "bad_field", *describe_field_errors(error.errors()))

    @app.exception_handler(HTTPException)
    def handle_framework_error(_: Request, error: HTTPException) -> JSONResponse:
        code = CODES.get(error.status_code, "bad_request")
        response = error_response(
            error.status_code, code, f"{error.detail}.", HINTS.get(error.status_code, "")
        )
        response.headers.update(error.headers or {})  # Allow, with status 405
        return response
