"""Bodies that are images: what kind it is, whether it can be read, and a thumbnail of it.

The content decides, never the name or the type that the sender gave. Only formats that cameras and browsers make are
tried, since Pillow also knows some that start other programs, and the size is looked at before a pixel is decoded.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import Any

from fastapi import Request
from PIL import Image, ImageFile

from ..data.pixels import MAX_PIXELS, decode
from ..errors import InputError
from .errors import Refusal

Image.init()  # Pillow loads most of its readers late
FORMATS: list[str] = [
    name
    for name in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "HEIF", "AVIF", "PPM")
    if name in Image.OPEN  # not every build of Pillow has them all
]
SIDE = 192  # of a thumbnail
QUALITY = 82

BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The image itself: JPEG, PNG, WebP, HEIC, AVIF, GIF, TIFF, BMP.",
        "content": {
            kind: {"schema": {"type": "string", "format": "binary"}}
            for kind in ("image/jpeg", "image/png", "image/webp", "image/heic", "application/octet-stream")
        },
    }
}


@dataclass(frozen=True)
class Looked:
    """What is kept of an image beside the image."""

    media_type: str
    thumbnail: bytes


async def read_image(request: Request) -> bytes:
    """The body of a request, which has to call itself an image or plain bytes."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not kind.startswith("image/") and kind != "application/octet-stream":
        raise Refusal(
            415,
            "bad_type",
            "The body has to be an image.",
            "Send the file itself with 'Content-Type: image/jpeg' (or application/octet-stream).",
        )
    return await request.body()


def look(content: bytes) -> Looked:
    """Read the whole image once, at a fraction of its size where that is possible."""
    with _opened(content) as image:
        media_type = image.get_format_mimetype() or "application/octet-stream"
        if image.format in ("JPEG", "MPO"):  # telephones put several pictures into one JPEG
            media_type = "image/jpeg"
            image.draft("RGB", (2 * SIDE, 2 * SIDE))
        try:
            small = decode(image)
        except InputError as error:
            raise unusable(error) from None
    small.thumbnail((SIDE, SIDE))
    out = BytesIO()
    small.save(out, "JPEG", quality=QUALITY)
    return Looked(media_type, out.getvalue())


def check_kind(content: bytes) -> None:
    """Refuse what is no image, or one that is too large, by its first bytes."""
    _opened(content).close()


def unusable(error: InputError) -> InputError:
    """The core says why in half a sentence; here it becomes a whole one."""
    return InputError(
        f"This image cannot be used: {error.message.rstrip('.')}.", "Send a JPEG, PNG, WebP or HEIC photo."
    )


def _opened(content: bytes) -> ImageFile.ImageFile:
    try:
        if not content:
            raise InputError("the file is empty")
        image = Image.open(BytesIO(content), formats=FORMATS)
        if image.width * image.height > MAX_PIXELS:
            raise Image.DecompressionBombError
    except InputError as error:
        raise unusable(error) from None
    except Image.DecompressionBombError:
        raise unusable(InputError(f"it has more than {MAX_PIXELS // 10**6} megapixels")) from None
    except Exception:  # Pillow's readers raise many kinds for what they cannot make out
        raise unusable(InputError("this is not an image")) from None
    return image
