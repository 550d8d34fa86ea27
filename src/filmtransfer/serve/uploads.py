"""Uploaded images: check their format and size, and make thumbnails.

The content decides about the format, not the name or type that the client sent. Only the formats of cameras and browsers
are accepted, since Pillow also has readers that start other programs, and the size is checked before a pixel is decoded.
"""

from __future__ import annotations

from io import BytesIO

from fastapi import Request
from PIL import Image, ImageFile

from ..data.pixels import MAX_PIXELS, decode
from ..errors import InputError
from .deps import content_type
from .errors import ApiError
from .store import JsonObject

Image.init()  # Pillow loads most of its readers late
FORMATS: list[str] = [
    name
    for name in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "HEIF", "AVIF", "PPM")
    if name in Image.OPEN  # not every build of Pillow has all of them
]
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
    with _open(content) as image:
        media_type = image.get_format_mimetype() or "application/octet-stream"
        if image.format in ("JPEG", "MPO"):  # phones put several images into one JPEG
            media_type = "image/jpeg"
            image.draft("RGB", (2 * THUMBNAIL_SIZE, 2 * THUMBNAIL_SIZE))
        try:
            thumbnail = decode(image)
        except InputError as error:
            raise image_error(error.message) from None
    thumbnail.thumbnail((THUMBNAIL_SIZE, THUMBNAIL_SIZE))
    out = BytesIO()
    thumbnail.save(out, "JPEG", quality=THUMBNAIL_QUALITY)
    return media_type, out.getvalue()


def check_header(content: bytes) -> None:
    """Refuse by its header what is not an image, or is too large."""
    _open(content).close()


def image_error(reason: str) -> InputError:
    """Return the error for an image that cannot be used, with the reason."""
    return InputError(
        f"This image cannot be used: {reason.rstrip('.')}.", "Send a JPEG, PNG, WebP or HEIC photo."
    )


def _open(content: bytes) -> ImageFile.ImageFile:
    if not content:
        raise image_error("the file is empty")
    try:
        image = Image.open(BytesIO(content), formats=FORMATS)
        if image.width * image.height > MAX_PIXELS:
            raise Image.DecompressionBombError
    except Image.DecompressionBombError:
        raise image_error(f"it has more than {MAX_PIXELS // 10**6} megapixels") from None
    except Exception:  # Pillow's readers raise many kinds of exceptions for damaged files
        raise image_error("this is not an image") from None
    return image
