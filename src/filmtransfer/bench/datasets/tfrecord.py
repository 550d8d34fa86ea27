"""TFRecord files and the tf.train.Example messages in them, read without TensorFlow.

A record is its length (8 bytes), a checksum of those 8 bytes, the data, and a checksum of the data; the
checksums are CRC32C, rotated and shifted by a constant (tensorflow/core/lib/io/record_writer.h). The data
is a protobuf message that maps names to lists of bytes, floats or integers
(tensorflow/core/example/example.proto and feature.proto).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from ...errors import InputError
from .unpacked import damaged_file

BLOCK = 1024  # bytes whose checksum is taken in one numpy expression
POLYNOMIAL = 0x82F63B78  # Castagnoli's, bits reversed
MASK = 0xA282EAD8

Content = bytes | memoryview
Values = list[Content] | list[float] | list[int]


def spans(path: Path) -> Iterator[tuple[int, memoryview]]:
    """Where the data of each record begins, and the data itself as a view of the file.

    The lengths are checked; the data are not touched, so that one can look for a small feature in a file
    of gigabytes. ``read`` checks them.
    """
    try:
        size = path.stat().st_size
        view = np.memmap(path, np.uint8, mode="r").data if size else memoryview(b"")
    except OSError as error:
        raise _unreadable(path, error) from None
    place = 0
    while place < size:
        if place + 12 > size:
            raise damaged_file(path, "it is cut off")
        header = bytes(view[place : place + 8])
        if _masked(header) != struct.unpack("<I", view[place + 8 : place + 12])[0]:
            raise damaged_file(path, f"the record at byte {place} has a wrong checksum")
        (length,) = struct.unpack("<Q", header)
        start = place + 12
        place = start + length + 4
        if place > size:
            raise damaged_file(path, "it is cut off")
        yield start, view[start : start + length]


def read(path: Path, start: int, length: int) -> bytes:
    """The data of one record, with its checksum compared."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            data, checksum = file.read(length), file.read(4)
    except OSError as error:
        raise _unreadable(path, error) from None
    if len(data) < length or len(checksum) < 4:
        raise damaged_file(path, "it is cut off")
    if _masked(data) != struct.unpack("<I", checksum)[0]:
        raise damaged_file(path, f"the record at byte {start - 12} has a wrong checksum")
    return data


def parse_example(data: Content, path: Path) -> dict[str, Values]:
    """The features of a tf.train.Example by name; of a view, views. ``path`` is for the message if it is none."""
    try:
        return {
            key: values
            for features in _messages(data, 1)
            for entry in _messages(features, 1)
            for key, values in [_feature(entry)]
        }
    except (ValueError, IndexError, struct.error):
        raise damaged_file(path, "a record is not a tf.train.Example") from None


def crc32c(data: Content) -> int:
    """The Castagnoli checksum. Bytes count independently of each other, so a block is one table look-up."""
    tables = _tables()
    places = np.arange(BLOCK)
    head = len(data) % BLOCK
    last = tables[-1].tolist()
    state = 0xFFFFFFFF
    for byte in data[:head]:
        state = (state >> 8) ^ last[(state ^ byte) & 0xFF]
    blocks = np.frombuffer(data, np.uint8, offset=head).reshape(-1, BLOCK) if len(data) > head else ()
    for block in blocks:
        own = np.bitwise_xor.reduce(tables[places, block])
        carried = [int(tables[i, (state >> 8 * i) & 0xFF]) for i in range(4)]
        state = int(own) ^ carried[0] ^ carried[1] ^ carried[2] ^ carried[3]
    return state ^ 0xFFFFFFFF


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(f"{path} cannot be read ({error.strerror}).", "Unpack the archive again.")


def _masked(data: bytes) -> int:
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + MASK) & 0xFFFFFFFF


@cache
def _tables() -> np.ndarray:
    """(BLOCK, 256): what a byte at a place in a block does to the checksum at the block's end."""
    tables = np.empty((BLOCK, 256), np.uint32)
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(POLYNOMIAL), table >> 1)
    tables[-1] = table
    for place in range(BLOCK - 2, -1, -1):
        later = tables[place + 1]
        tables[place] = table[later & 0xFF] ^ (later >> 8)
    return tables


def _feature(entry: Content) -> tuple[str, Values]:
    """A name and its list: field 1 of an entry is the name, field 2 the list in one of three kinds."""
    name = ""
    values: Values = []
    for number, _, content in _fields(entry):
        if number == 1 and not isinstance(content, int):
            name = bytes(content).decode()
        elif number == 2 and not isinstance(content, int):
            for kind, _, items in _fields(content):
                if isinstance(items, int):
                    raise ValueError
                values = _values(kind, items)
    return name, values


def _values(kind: int, items: Content) -> Values:
    if kind == 1:
        return list(_messages(items, 1))
    if kind == 2:
        return [x for _, _, packed in _fields(items) for x in _floats(packed)]
    if kind == 3:
        return [x for _, _, packed in _fields(items) for x in _integers(packed)]
    raise ValueError


def _floats(packed: int | Content) -> list[float]:
    if isinstance(packed, int):
        raise ValueError
    return list(struct.unpack(f"<{len(packed) // 4}f", packed))


def _integers(packed: int | Content) -> list[int]:
    """One integer, or several packed together; 64 bits with a sign."""
    if isinstance(packed, int):
        numbers = [packed]
    else:
        numbers, place = [], 0
        while place < len(packed):
            number, place = _varint(packed, place)
            numbers.append(number)
    return [x - (1 << 64) if x >> 63 else x for x in numbers]


def _messages(data: Content, wanted: int) -> Iterator[Content]:
    """The contents of all fields number ``wanted``."""
    for number, _, content in _fields(data):
        if number == wanted:
            if isinstance(content, int):
                raise ValueError
            yield content


def _fields(data: Content) -> Iterator[tuple[int, int, int | Content]]:
    """Number, wire type and content of each field of a protobuf message."""
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        wire = tag & 7
        if wire == 0:
            content: int | Content
            content, place = _varint(data, place)
        else:
            length = {1: 8, 5: 4}.get(wire, 0)
            if wire == 2:
                length, place = _varint(data, place)
            if wire not in (1, 2, 5) or place + length > len(data):
                raise ValueError
            content, place = data[place : place + length], place + length
        yield tag >> 3, wire, content


def _varint(data: Content, place: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first; and where the next one begins."""
    number = shift = 0
    while shift < 70:
        byte = data[place]
        number |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return number, place
    raise ValueError
