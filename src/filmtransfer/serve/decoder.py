"""Decode uploaded images, one after the other, in a process with limits on memory, time and what it may do.

    python -m filmtransfer.serve.decoder MEGABYTES SECONDS

Requests come on standard input and responses go to standard output; each is a JSON document and bytes. A request for a
prediction has the pixel format, and its response the pixels; the response to any other one is a thumbnail. Each response
also says how many seconds of a processor it took. The process ends with its input, hence with the service. A request that takes too long ends it: only the operating system can stop a
decoder that never returns.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from io import BytesIO
from typing import IO, Any

from PIL import Image, ImageFile

from ..data.formats import import_readers
from ..data.pixels import PixelSpec, open_image, read_square, to_rgb, upright
from ..errors import InputError
from .sandbox import restrict

THUMBNAIL_SIZE = 192  # pixels
THUMBNAIL_QUALITY = 82
LENGTHS = struct.Struct(">II")  # of the document and of the bytes

Message = tuple[dict[str, Any], bytes]


def main(arguments: Sequence[str] | None = None) -> None:
    """Respond to requests until the input ends."""
    megabytes, seconds = (int(argument) for argument in (arguments or sys.argv[1:]))
    requests, responses = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "r+b") as nothing:  # so that what a library prints is no response
        os.dup2(nothing.fileno(), 0)
        os.dup2(nothing.fileno(), 1)
    Image.MAX_IMAGE_PIXELS = None  # budgets.MAX_PIXELS is smaller, and says so without a warning
    import_readers()  # nothing can be imported later
    restrict(megabytes)
    while (message := receive(requests)) is not None:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        before = time.process_time()
        document, content = respond(*message)
        signal.setitimer(signal.ITIMER_REAL, 0)
        send(responses, document | {"seconds": time.process_time() - before}, content)


def respond(request: dict[str, Any], content: bytes) -> Message:
    """Return the response to a request; the reason, if an image cannot be used."""
    try:
        if "spec" in request:
            spec = PixelSpec(**request["spec"])
            return {}, read_square(content, spec).tobytes()
        media_type, thumbnail = make_thumbnail(content)
        return {"media_type": media_type}, thumbnail
    except InputError as error:
        return {"error": error.message}, b""
    except MemoryError:
        return {"error": "decoding it takes too much memory"}, b""


def make_thumbnail(content: bytes) -> tuple[str, bytes]:
    """Decode an image once, at a reduced size where possible; return its media type and a thumbnail."""
    with open_image(content, near=THUMBNAIL_SIZE) as image:
        assert isinstance(image, ImageFile.ImageFile)
        media_type = image.get_format_mimetype() or "application/octet-stream"
        if image.format in ("JPEG", "MPO"):  # phones put several images into one JPEG
            media_type = "image/jpeg"
            image.draft("RGB", (2 * THUMBNAIL_SIZE, 2 * THUMBNAIL_SIZE))
        thumbnail = to_rgb(upright(image))
    thumbnail.thumbnail((THUMBNAIL_SIZE, THUMBNAIL_SIZE))
    out = BytesIO()
    thumbnail.save(out, "JPEG", quality=THUMBNAIL_QUALITY)
    return media_type, out.getvalue()


def describe(spec: PixelSpec) -> dict[str, Any]:
    """Return a pixel format as a request contains it."""
    return {"spec": asdict(spec)}


def send(file: IO[bytes], document: dict[str, Any], content: bytes) -> None:
    """Write a message."""
    text = json.dumps(document).encode()
    file.write(LENGTHS.pack(len(text), len(content)) + text)
    file.write(content)
    file.flush()


def receive(file: IO[bytes], largest: int = 2**32) -> Message | None:
    """Read a message; None if the other side has ended, or sends one that is larger than it may be."""
    header = file.read(LENGTHS.size)
    if len(header) < LENGTHS.size:
        return None
    lengths = LENGTHS.unpack(header)
    if max(lengths) > largest:
        return None
    text, content = (file.read(length) for length in lengths)
    if (len(text), len(content)) != lengths:
        return None
    return json.loads(text), content


if __name__ == "__main__":
    main()
