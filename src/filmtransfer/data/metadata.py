"""What an image file contains besides its pixels: tags, profiles, comments. It is charged before Pillow reads it.

Pillow copies what it reads: a thousand tags may refer to the same megabyte, and each block of a comment copies those before
it. So the structure of a file is read first: the directories of TIFF and EXIF, the segments of JPEG, the chunks of PNG,
the blocks of GIF and the boxes of HEIF. Of other formats, Pillow keeps no more than the file contains. It would parse any EXIF block for the
orientation, which is read here instead, from one tag.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BytesIO
from struct import Struct
from typing import IO, Literal

from PIL import Image

from ..budgets import MAX_IMAGE_METADATA, MAX_IMAGE_PARTS
from ..errors import InputError

PREFIX = re.compile(rb"(?:Exif\0\0)*")  # of an EXIF block; Pillow removes one after the other
ORIENTATION = 274  # a tag of TIFF and EXIF
DIRECTORIES = (34665, 34853, 40965)  # tags that refer to other directories: EXIF, GPS, interoperability
SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8}  # of types
TEXT_TYPES = (1, 2, 7)  # kept as bytes; of the others, each number becomes an object
INTEGER_TYPES = (3, 4, 6, 8, 9, 13, 16)
XMP_ORIENTATION = re.compile(r'tiff:Orientation(?:="|>)([0-9])')
RAW_PROFILE = "Raw profile type exif"  # a text of PNG, in hexadecimal digits
TAG = 20  # numbers that take Pillow as long as a tag
COPIED = 100  # bytes that are copied cost as much as one that is kept
CHUNK = re.compile(rb"\w{4}")  # a name in PNG
COMPRESSED = (b"iCCP", b"zTXt", b"iTXt")  # chunks of PNG …
EXPANDED = 1 << 20  # … and the bytes to which Pillow expands one at most
PPM_COMMENT = re.compile(rb"#[^\r\n]*")
COMMENT = 254  # a label in GIF

Tag = tuple[int, int, int, bytes]  # its number, its type, how many values it has, and these or their offset


class Charge:
    """The cost of a file's metadata so far."""

    def __init__(self) -> None:
        self.size = self.parts = 0

    def add(self, size: int, parts: int = 1) -> None:
        """Add bytes, and the tags, numbers, segments, chunks or blocks that contain them; refuse what is too much."""
        self.size += size
        self.parts += parts
        if self.size > MAX_IMAGE_METADATA:
            raise InputError(f"it has more than {MAX_IMAGE_METADATA // 10**6} MB of metadata")
        if self.parts > MAX_IMAGE_PARTS:
            raise InputError(f"its metadata has more than {MAX_IMAGE_PARTS:,} parts")


class TagReader:
    """The directories of a TIFF file or an EXIF block."""

    def __init__(self, file: IO[bytes]) -> None:
        self.end = file.seek(0, os.SEEK_END)
        file.seek(0)
        header = file.read(16).ljust(16, b"\0")
        self.file = file
        self.order: Literal["big", "little"] = "big" if header[:2] == b"MM" else "little"
        self.is_big = header[2] == 43  # BigTIFF: offsets of 8 bytes
        self.first = self._number(header[8:] if self.is_big else header[4:8])

    def tags(self, offset: int) -> Iterator[Tag]:
        """Yield the tags of the directory at an offset; those that are there, if it is damaged."""
        if offset >= 1 << 63:
            return
        self.file.seek(offset)
        number = self._number(self.file.read(8 if self.is_big else 2))
        entry = Struct((">" if self.order == "big" else "<") + ("HHQ8s" if self.is_big else "HHI4s"))
        content = self.file.read(entry.size * min(number, MAX_IMAGE_PARTS + 1))
        yield from entry.iter_unpack(content[: len(content) // entry.size * entry.size])

    def is_complete(self, tag: Tag) -> bool:
        """Return whether the file contains the values of a tag; Pillow reads no others."""
        _, type_, count, content = tag
        size = count * SIZES.get(type_, 0)
        return size <= len(content) or self._number(content) + size <= self.end

    def integer(self, tag: Tag) -> int | None:
        """Return the first value of a tag; None if it is no integer."""
        _, type_, count, content = tag
        if type_ not in INTEGER_TYPES or count == 0 or not self.is_complete(tag):
            return None
        if count * SIZES[type_] > len(content):
            self.file.seek(self._number(content))
            content = self.file.read(SIZES[type_])
        return self._number(content[: SIZES[type_]])

    def _number(self, content: bytes) -> int:
        return int.from_bytes(content, self.order)


def check_metadata(file: IO[bytes], format: str) -> None:
    """Refuse a file whose metadata would take too much memory or time; what is damaged is left to Pillow."""
    if format in CHARGES:
        file.seek(0)
        CHARGES[format](file, Charge())


def orientation_of(image: Image.Image) -> int:
    """Return the EXIF orientation of an image, 1 to 8. It is 1 of a TIFF, which Pillow turns when it is decoded.

    A PNG may have its EXIF block after the pixels, so it is known for certain only of a decoded image.
    """
    if image.format == "TIFF":
        return 1
    exif, value = image.info.get("exif"), None
    if exif is None and isinstance(profile := image.info.get(RAW_PROFILE), str):
        with suppress(ValueError):
            exif = bytes.fromhex("".join(profile.split("\n")[3:]))
    if isinstance(exif, bytes):
        reader = TagReader(_without_prefix(exif))
        for tag in reader.tags(reader.first):
            if tag[0] == ORIENTATION:
                value = reader.integer(tag)
    xmp = image.info.get("XML:com.adobe.xmp") or image.info.get("xmp")
    if value is None and isinstance(xmp, (str, bytes)):
        text = xmp if isinstance(xmp, str) else xmp.decode("latin1")
        value = int(match[1]) if (match := XMP_ORIENTATION.search(text)) else None
    return value if value is not None and 1 <= value <= 8 else 1


def forget_orientation(image: Image.Image) -> None:
    """Remove the metadata that contains the orientation: the image is upright now."""
    for key in ("exif", RAW_PROFILE, "XML:com.adobe.xmp", "xmp"):
        image.info.pop(key, None)


def _without_prefix(exif: bytes | bytearray) -> IO[bytes]:
    prefix = PREFIX.match(exif)
    return BytesIO(exif[prefix.end() :] if prefix else exif)


def _charge_directories(file: IO[bytes], charge: Charge) -> None:
    """Charge the tags of the first directory and of those that it refers to, as Pillow reads them."""
    reader = TagReader(file)
    offsets = [reader.first]
    for offset in offsets:
        for tag in reader.tags(offset):
            number, type_, count, _ = tag
            if not reader.is_complete(tag):
                count = 0
            charge.add(count * SIZES.get(type_, 0), TAG + (0 if type_ in TEXT_TYPES else count))
            inner = reader.integer(tag) if number in DIRECTORIES else None
            if inner is not None and inner not in offsets:
                offsets.append(inner)


def _charge_jpeg(file: IO[bytes], charge: Charge) -> None:
    """Charge the segments before the first scan, as Pillow reads them."""
    exif = bytearray()
    for marker, content in _segments(file, charge):
        is_application = 0xE0 <= marker <= 0xEF or marker == 0xFE  # or a comment
        charge.add(len(content), 1 if is_application else 1 + len(content))
        if marker == 0xE1 and content.startswith(b"Exif\0\0"):
            exif += content[6:] if exif else content
            charge.add(len(exif) // COPIED)
        if marker == 0xE2 and content.startswith(b"MPF\0"):
            _charge_directories(BytesIO(content[4:]), charge)
    block = _without_prefix(exif)
    charge.add((len(exif) - len(block.read())) // 6 * len(exif) // COPIED)
    _charge_directories(block, charge)


def _segments(file: IO[bytes], charge: Charge) -> Iterator[tuple[int, bytes]]:
    """Yield the marker and the content of each segment before the first scan; charge the bytes between them."""
    file.seek(3)
    previous = 0xFF
    while byte := file.read(1):
        charge.add(0)
        marker = byte[0]
        if previous != 0xFF or marker in (0, 0xFF):
            previous = marker
            continue
        if marker < 0xC0 or marker == 0xDA:
            return
        previous = 0
        if marker != 0xC8 and not 0xD0 <= marker <= 0xD9 and not 0xF0 <= marker <= 0xFD:
            size = int.from_bytes(file.read(2), "big")
            yield marker, file.read(max(0, size - 2))


def _charge_png(file: IO[bytes], charge: Charge) -> None:
    """Charge all chunks, but not the content of those with pixels."""
    end = file.seek(0, os.SEEK_END)
    file.seek(8)
    while len(header := file.read(8)) == 8 and CHUNK.match(name := header[4:]):
        size = min(int.from_bytes(header[:4], "big"), end - file.tell())
        kept = 0 if name in (b"IDAT", b"fdAT") else size
        charge.add(kept + (EXPANDED if name in COMPRESSED else 0), 1 + (size if name == b"cHRM" else 0))
        file.seek(size + 4, 1)


def _charge_gif(file: IO[bytes], charge: Charge) -> None:
    """Charge the blocks before the first frame."""
    flags = file.read(13)[10:11]
    if flags and flags[0] & 128:
        file.seek(3 << (flags[0] & 7) + 1, 1)
    comment = 0
    while (byte := file.read(1)) not in (b"", b",", b";"):
        charge.add(0)
        label = file.read(1) if byte == b"!" else b""
        while label and (size := file.read(1)) and size[0]:
            comment += size[0] if label[0] == COMMENT else 0
            charge.add(size[0] + (comment // COPIED if label[0] == COMMENT else 0))
            file.seek(size[0], 1)


def _charge_ppm(file: IO[bytes], charge: Charge) -> None:
    """Charge the header, which Pillow reads byte by byte, until it has all numbers."""
    header = file.read(MAX_IMAGE_PARTS)
    numbers = len(PPM_COMMENT.sub(b"", header).split(None, 4)) - 1
    charge.add(0, 0 if numbers >= (2 if header.startswith(b"P4") else 3) else len(header) + 1)


def _charge_heif(file: IO[bytes], charge: Charge) -> None:
    """Charge the blocks of metadata, as often as an image of the file refers to them: each image gets a copy."""
    sizes: Counter[int] = Counter()
    images: Counter[int] = Counter()
    end = file.seek(0, os.SEEK_END)
    for box, start, stop in _boxes(file, 0, end, charge):
        for inner, inner_start, inner_stop in _boxes(file, start + 4, stop, charge) if box == b"meta" else ():
            if inner == b"iloc":
                sizes += _item_sizes(_Fields(file, inner_start, inner_stop, charge), end)
            if inner == b"iref":
                width = 4 if _Fields(file, inner_start, inner_stop, charge).number(1) else 2
                for reference, first, last in _boxes(file, inner_start + 4, inner_stop, charge):
                    fields = _Fields(file, first, last, charge)
                    item, count = fields.number(width), fields.number(2)
                    images[item] += count if reference == b"cdsc" else 0
    for item, count in images.items():
        charge.add(sizes[item] * count, count)


def _boxes(file: IO[bytes], start: int, stop: int, charge: Charge) -> Iterator[tuple[bytes, int, int]]:
    """Yield the type of each box of HEIF between two positions, and where its content starts and stops."""
    while start + 8 <= stop:
        charge.add(0)
        file.seek(start)
        header = file.read(16)
        size, content = int.from_bytes(header[:4], "big"), start + 8
        if size == 1:
            size, content = int.from_bytes(header[8:], "big"), start + 16
        following = min(start + size, stop) if size else stop
        if following < content:
            return
        yield header[4:8], content, following
        start = following


class _Fields:
    """The numbers in a box of HEIF, one after the other; 0 after its end."""

    def __init__(self, file: IO[bytes], start: int, stop: int, charge: Charge) -> None:
        charge.add(stop - start)
        file.seek(start)
        self.content, self.position, self.charge = file.read(stop - start), 0, charge

    def number(self, size: int) -> int:
        """Return the number in the next bytes."""
        self.position += size
        return int.from_bytes(self.content[self.position - size : self.position], "big")

    @property
    def is_left(self) -> bool:
        """Return whether there is another number."""
        return self.position < len(self.content)


def _item_sizes(fields: _Fields, most: int) -> Counter[int]:
    """Return the size of each item of an ``iloc`` box: the sum of its extents, which may be the same bytes."""
    sizes: Counter[int] = Counter()
    version, _, widths = fields.number(1), fields.number(3), fields.number(2)
    offset, length, base, index = (widths >> shift & 15 for shift in (12, 8, 4, 0))
    id_width = 4 if version == 2 else 2
    for _ in range(fields.number(id_width)):
        item = fields.number(id_width)
        fields.number((2 if version else 0) + 2 + base)
        for _ in range(fields.number(2)):
            fields.number((index if version else 0) + offset)
            sizes[item] += min(fields.number(length) or most, most)
            fields.charge.add(0)
        if not fields.is_left:
            break
    return sizes


def _charge_avif(file: IO[bytes], charge: Charge) -> None:
    """Charge the EXIF block, which Pillow parses when it opens the file, after all others."""
    _charge_heif(file, charge)
    file.seek(0)
    from PIL import _avif

    exif = b""
    with suppress(Exception):  # Pillow reports the same
        exif = _avif.AvifDecoder(file.read(), "auto", 1).get_info()[4]
    _charge_directories(_without_prefix(exif or b""), charge)


CHARGES: dict[str, Callable[[IO[bytes], Charge], None]] = {
    "TIFF": _charge_directories,
    "JPEG": _charge_jpeg,
    "PNG": _charge_png,
    "GIF": _charge_gif,
    "PPM": _charge_ppm,
    "AVIF": _charge_avif,
    "HEIF": _charge_heif,
}
