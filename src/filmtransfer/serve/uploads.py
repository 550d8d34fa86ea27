"""Uploaded images: what a request with an image looks like, and its body."""

from __future__ import annotations

from fastapi import Request

from .deps import content_type
from .errors import ApiError
from .store import JsonObject

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
