"""Uploaded images: check their format and size, and make thumbnails.

The content decides about the format, not the name or type that the client sent. Only the formats of cameras and browsers
are accepted, since Pillow also has readers that start other programs, and the size is checked before a pixel is decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO

from fastapi import Request
from PIL import ImageFile

from ..data.pixels import decode, open_image
from ..errors import InputError
from .deps import content_type
from .errors import ApiError
from .store import JsonObject

THUMBNAIL_SIZE = 192  # pixels
THUMBNAIL_QUALITY = 82

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


def check_image(content: bytes) -> tuple[str, bytes]:
    """Decode the image once, at a reduced size where possible; return its media type and a thumbnail."""
    with image_errors(), open_image(content, near=THUMBNAIL_SIZE) as image:
        assert isinstance(image, ImageFile.ImageFile)
        media_type = image.get_format_mimetype() or "application/octet-stream"
        if image.format in ("JPEG", "MPO"):  # phones put several images into one JPEG
            media_type = "image/jpeg"
            image.draft("RGB", (2 * THUMBNAIL_SIZE, 2 * THUMBNAIL_SIZE))
        thumbnail = decode(image)
    thumbnail.thumbnail((THUMBNAIL_SIZE, THUMBNAIL_SIZE))
    out = BytesIO()
    thumbnail.save(out, "JPEG", quality=THUMBNAIL_QUALITY)
    return media_type, out.getvalue()


def check_header(content: bytes) -> None:
    """Refuse by its header what is not an image, or is too large."""
    with open_image(content):
        pass


@contextmanager
def image_errors() -> Iterator[None]:
    """Turn the reason why an image cannot be used into a complete message."""
    try:
        yield
    except InputError as error:
        raise InputError(
            f"This image cannot be used: {error.message.rstrip('.')}.",
            "Send a JPEG, PNG, WebP or HEIC photo.",
        ) from None
