"""Bodies that are JSON say so."""

from __future__ import annotations

from fastapi import Request

from ..errors import Refusal


def json_only(request: Request) -> None:
    """Refuse another content type, before anything is made of the body; a browser's form cannot send JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    empty = (
        not kind
        and request.headers.get("content-length", "0") == "0"
        and "transfer-encoding" not in request.headers
    )
    if kind != "application/json" and not empty:
        raise Refusal(415, "bad_type", "The body has to be JSON.", "Send 'Content-Type: application/json'.")
