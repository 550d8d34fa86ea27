"""Images of all formats that are read, to the squares that a backbone takes."""

from __future__ import annotations

import random
import re
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import PIL
from PIL import Image, PngImagePlugin
from pillow_heif import from_pillow

from filmtransfer.data.pixels import PixelSpec, decode, reduce, side_of, to_square
from filmtransfer.errors import FitError
from filmtransfer.report.pictures import aspect_ratio
from filmtransfer.serve.decoder import make_thumbnail
from tests.fuzz.mutation import mutate_bytes

TRACED = (str(Path(PIL.__file__).parent),)
SQUASH = PixelSpec(32, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
LARGEST = 8_000_000  # bytes of an input with repeated parts
CROP = PixelSpec(32, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), fit="crop")


def seeds() -> list[bytes]:
    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(0, 256, (12, 17, 3), np.uint8))
    palette, grey, alpha = image.quantize(8), image.convert("L"), image.convert("RGBA")
    deep = Image.fromarray(rng.integers(0, 2**16, (12, 17)).astype(np.uint16))
    exif = Image.Exif()
    exif[0x0112] = 6  # turned
    exif[0x010F], exif[0x8769] = "maker", {0x9286: b"comment" * 9}
    text = PngImagePlugin.PngInfo()
    text.add_text("comment", "text" * 9, zip=True)
    text.add_itxt("XML:com.adobe.xmp", '<x tiff:Orientation="8"/>')
    variants: list[tuple[Image.Image, str, dict[str, Any]]] = [
        (image, "JPEG", {"quality": 60}),
        (image, "JPEG", {"progressive": True, "exif": exif.tobytes()}),
        (image.convert("CMYK"), "JPEG", {}),
        (image, "JPEG", {"icc_profile": bytes(99), "comment": "text", "xmp": b"<x/>", "exif": exif}),
        (image, "MPO", {"exif": exif, "save_all": True, "append_images": [image.rotate(90)]}),
        (image, "PNG", {}),
        (image, "PNG", {"pnginfo": text, "icc_profile": bytes(99)}),
        (alpha, "PNG", {"exif": exif.tobytes()}),
        (palette, "PNG", {"transparency": 1}),
        (deep, "PNG", {}),
        (image, "PNG", {"save_all": True, "append_images": [image.rotate(90)]}),
        (image, "WEBP", {}),
        (alpha, "WEBP", {"lossless": True, "exif": exif, "xmp": b'<x tiff:Orientation="3"/>'}),
        (image, "WEBP", {"save_all": True, "append_images": [image.rotate(90)]}),
        (palette, "GIF", {"comment": b"text"}),
        (palette, "GIF", {"save_all": True, "append_images": [palette.rotate(180)]}),
        (image, "TIFF", {"exif": exif, "tiffinfo": {278: 1}}),
        (image, "TIFF", {"big_tiff": True}),
        (image, "TIFF", {"save_all": True, "append_images": [image.rotate(90)]}),
        (image, "TIFF", {"compression": "tiff_lzw"}),
        (image, "TIFF", {"compression": "jpeg"}),
        (deep, "TIFF", {"compression": "tiff_deflate"}),
        (grey.convert("F"), "TIFF", {}),
        (image, "BMP", {}),
        (palette, "BMP", {}),
        (image, "PPM", {}),
        (grey, "PPM", {}),
        (image, "AVIF", {}),
        (image, "AVIF", {"exif": exif}),
    ]
    return [_encoded(*variant) for variant in variants] + [_heif(image)]


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Repeat a part of a file, or make many of its tags refer to the same bytes."""
    kind = next((kind for kind, start in STARTS.items() if data.startswith(start)), "")
    if kind not in ("", "TIFF") and rng.random() < 0.3:
        return _with_exif(data, kind, _shared_tags(rng))
    count = rng.choice((100, 1000, 5000))
    try:
        if kind == "TIFF":
            return _repeat_tag(data, count, rng)
        start, end = rng.choice(PARTS[kind](data))
    except (KeyError, IndexError, struct.error):  # of a format without parts, or none is left
        return mutate_bytes(data, [data], rng)
    count = min(count, LARGEST // max(1, end - start))
    return data[:start] + data[start:end] * count + data[end if rng.random() < 0.5 else start :]


def run(data: bytes) -> None:
    with suppress(FitError):
        image = decode(data, near=SQUASH.size)
        for spec in (SQUASH, CROP):
            square = to_square(image, spec)
            assert square.shape == (3, 32, 32), f"a square of shape {square.shape}"
    with suppress(FitError):
        make_thumbnail(data)
    reduce(data, 4)
    side_of(data)
    aspect_ratio(data)


def _encoded(image: Image.Image, kind: str, options: dict[str, Any]) -> bytes:
    file = BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def _heif(image: Image.Image) -> bytes:
    file = BytesIO()
    from_pillow(image).save(file, quality=50)
    return file.getvalue()


def _segments(data: bytes) -> list[tuple[int, int]]:
    """Return where the segments of a JPEG are, and its scans with their pixels."""
    parts, start = [], 2
    while start + 4 <= len(data) and data[start] == 0xFF:
        end = start + 2 + struct.unpack_from(">H", data, start + 2)[0]
        if data[start + 1] == 0xDA:
            after = re.compile(rb"\xff[^\0\xd0-\xd7]").search(data, end)
            end = after.start() if after else len(data)
        parts.append((start, end))
        start = end
    return parts


def _chunks(data: bytes, start: int, order: str, extra: int) -> list[tuple[int, int]]:
    """Return where the chunks of a PNG or a WebP are."""
    parts = []
    while start + 8 <= len(data):
        size = struct.unpack_from(f"{order}I", data, start if order == ">" else start + 4)[0]
        end = start + 8 + extra + size + (size & 1 if order == "<" else 0)
        parts.append((start, end))
        start = end
    return parts


def _blocks(data: bytes) -> list[tuple[int, int]]:
    """Return where the extensions and the frames of a GIF are, and the blocks in them."""
    parts, start = [], 13 + (3 * (2 << (data[10] & 7)) if data[10] & 128 else 0)
    while start < len(data) and data[start] in b"!,":
        end = start + (2 if data[start] == 33 else 11)
        while end < len(data) and data[end]:
            parts.append((end, end + 1 + data[end]))
            end += 1 + data[end]
        parts.append((start, end + 1))
        start = end + 1
    return parts


def _repeat_tag(data: bytes, count: int, rng: random.Random) -> bytes:
    """Append a directory to a TIFF in which a tag is there many times, or many tags are as it is."""
    start = struct.unpack_from("<I", data, 4)[0]
    number = struct.unpack_from("<H", data, start)[0]
    entries = [data[start + 2 + 12 * i : start + 14 + 12 * i] for i in range(number)]
    entry = bytearray(rng.choice(entries))
    if rng.random() < 0.5:  # more values: the rest of the file
        entry[4:12] = struct.pack("<II", rng.choice((len(data) // 8, len(data) * 9)), 8)
    first = rng.choice((None, 40000))
    more = [
        (bytes(entry[:2]) if first is None else struct.pack("<H", first + i)) + entry[2:]
        for i in range(count)
    ]
    directory = struct.pack("<H", number + count) + b"".join(sorted([*entries, *more])) + bytes(4)
    padding = rng.choice((0, 1_000_000))
    return data[:4] + struct.pack("<I", len(data)) + data[8:] + directory + bytes(padding)


def _shared_tags(rng: random.Random) -> bytes:
    """Return an EXIF block of many tags that refer to the same bytes."""
    number, size, type_ = (
        rng.choice((100, 1000, 5000)),
        10 ** rng.randint(2, 6),
        rng.choice((1, 2, 3, 5, 7, 12)),
    )
    count = size // {3: 2, 5: 8, 12: 8}.get(type_, 1)
    entries = [struct.pack("<HHII", 300 + i, type_, count, 8 + 2 + 12 * number + 4) for i in range(number)]
    return b"II*\0\x08\0\0\0" + struct.pack("<H", number) + b"".join(entries) + bytes(4) + bytes(size)


def _with_exif(data: bytes, kind: str, exif: bytes) -> bytes:
    """Return the file with another EXIF block."""
    if kind == "JPEG":
        parts = [b"Exif\0\0" + exif[i : i + 65000] for i in range(0, len(exif), 65000)]
        return (
            data[:2] + b"".join(struct.pack(">HH", 0xFFE1, len(part) + 2) + part for part in parts) + data[2:]
        )
    if kind == "PNG":
        chunk = b"eXIf" + exif
        return (
            data[:33]
            + struct.pack(">I", len(exif))
            + chunk
            + struct.pack(">I", zlib.crc32(chunk))
            + data[33:]
        )
    with suppress(Exception), Image.open(BytesIO(data)) as image:
        if kind == "WEBP":
            return _encoded(image, "WEBP", {"exif": exif})
        other = b"II*\0\x08\0\0\0" + bytes(6) + b"?" * (len(exif) - 14)  # Pillow parses what it writes
        return _encoded(image, "AVIF", {"exif": other}).replace(other, exif)
    return data


STARTS = {
    "JPEG": b"\xff\xd8",
    "PNG": b"\x89PNG",
    "WEBP": b"RIFF",
    "GIF": b"GIF8",
    "TIFF": b"II*",
    "AVIF": b"\0\0\0 ftypavif",
}
PARTS: dict[str, Callable[[bytes], list[tuple[int, int]]]] = {
    "JPEG": _segments,
    "PNG": lambda data: _chunks(data, 8, ">", 4),
    "WEBP": lambda data: _chunks(data, 12, "<", 0),
    "GIF": _blocks,
}
