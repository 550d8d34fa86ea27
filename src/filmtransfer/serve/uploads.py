"""Uploaded images: what a request with an image looks like, its body, and the decoding of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import anyio
from anyio import to_thread
from fastapi import Request
from starlette.requests import ClientDisconnect

from ..errors import UnavailableError
from .decoders import DecodeJob
from .deps import Service, content_type
from .errors import RETRY_SECONDS, ApiError
from .limits import TURN, busy, ending, on_disconnect, wait_for_turn
from .store import JsonObject
from .turns import LineFullError, Turn

T = TypeVar("T")
START_SECONDS = 20  # of a decoder, at most

IMAGE_BODY: JsonObject = {
    "requestBody": {
        "required": True,
        "description": "The image file: JPEG, PNG, WebP, HEIC, AVIF, GIF, TIFF, BMP.",
        "content": {
            kind: {"schema": {"type": "string", "format": "binary"}}
            for kind in ("image/jpeg", "image/png", "image/webp", "image/heic", "application/octet-stream")
        },
    }
}


async def read_image(request: Request) -> bytes:
    """Return the body of a request whose content type is an image or plain bytes."""
    kind = content_type(request)
    if not kind.startswith("image/") and kind != "application/octet-stream":
        raise ApiError(
            415,
            "bad_type",
            "The body is not an image.",
            "Send the file itself with 'Content-Type: image/jpeg' (or application/octet-stream).",
        )
    return await request.body()


async def decode(service: Service, request: Request, user: str, work: Callable[[DecodeJob], T]) -> T:
    """Return the result of ``work``, which decodes an image in a thread, in the user's turn; end it if the client leaves.

    Before the turn has come, the request may be refused to make room for the photos of other users.
    """
    job, left = DecodeJob(), False

    def leave() -> None:
        nonlocal left
        left = True
        job.cancel()

    try:
        async with service.decoding.turn(user, partial(_wait, service, request)) as turn:
            with (
                _deadline(service.settings.max_decode_seconds + START_SECONDS, job.cancel),
                on_disconnect(request.scope, leave),
            ):
                try:
                    return await to_thread.run_sync(work, job)
                finally:
                    turn.cost = job.seconds
    except LineFullError:
        raise ending() if service.decoding.closed else busy(RETRY_SECONDS) from None
    except UnavailableError:
        if left:
            raise ClientDisconnect from None
        raise


@contextmanager
def _deadline(seconds: float, end: Callable[[], None]) -> Iterator[None]:
    """Call a function unless the block ends in time."""
    timer = asyncio.get_running_loop().call_later(seconds, end)
    try:
        yield
    finally:
        timer.cancel()


async def _wait(service: Service, request: Request, decided: anyio.Event) -> None:
    """Wait for a decoder, which the next user gets as soon as an image is decoded."""
    held: Turn = getattr(request.state, TURN)
    held.idle = True
    try:
        seconds = service.settings.max_wait + service.settings.max_decode_seconds
        await wait_for_turn(request.scope, seconds, decided, partial(service.uploads.must_end, held))
    finally:
        held.idle = False
