"""The scans of a JPEG. Each goes over all pixels, even one of a few bytes, so their number decides how long decoding takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO

from ..budgets import MAX_IMAGE_PARTS, MAX_IMAGE_SCANS
from ..errors import InputError

BLOCK = 1 << 16  # bytes read at a time
MARKER = re.compile(rb"\xff[^\0\xff\xd0-\xd7]")  # but not those within a scan
SCAN, END, NO_LENGTH = 0xDA, 0xD9, (0x01, 0xD8)


def check_scans(file: IO[bytes]) -> None:
    """Refuse a JPEG with more scans than any encoder writes."""
    position, scans = file.tell(), 0
    for parts, marker in enumerate(_markers(file)):
        scans += marker == SCAN
        if scans > MAX_IMAGE_SCANS or parts > MAX_IMAGE_PARTS:
            raise InputError(f"it has more than {MAX_IMAGE_SCANS} scans")
    file.seek(position)


def _markers(file: IO[bytes]) -> Iterator[int]:
    """Yield the markers of the first image in a file, without those in segments."""
    file.seek(2)
    while block := file.read(BLOCK):
        match = MARKER.search(block)
        if match is None:
            if block[-1] == 0xFF and len(block) > 1:  # the marker may follow
                file.seek(-1, 1)
            continue
        file.seek(match.end() - len(block), 1)
        marker = match[0][1]
        yield marker
        if marker == END:
            return
        if marker not in NO_LENGTH:
            file.seek(max(0, int.from_bytes(file.read(2), "big") - 2), 1)
