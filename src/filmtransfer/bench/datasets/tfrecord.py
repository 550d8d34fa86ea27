"""Read TFRecord files, and the tf.train.Example messages in them, without TensorFlow.

A record consists of its length (8 bytes), a checksum of those 8 bytes, the data, and a checksum of the data; the
checksums are CRC32C, rotated and shifted by a constant (tensorflow/core/lib/io/record_writer.h). The data are a
protobuf message that maps names to lists of bytes, floats or integers (tensorflow/core/example/example.proto and
feature.proto).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from ...files import reading
from .unpacked import damaged_file

BLOCK = 1024  # bytes whose checksum is computed in one numpy expression
POLYNOMIAL = 0x82F63B78  # the Castagnoli polynomial, bits reversed
MASK = 0xA282EAD8
UNPACK_AGAIN = "Unpack the archive again."

Content = bytes | memoryview
Values = list[Content] | list[float] | list[int]


def record_spans(path: Path) -> Iterator[tuple[int, memoryview]]:
    """Yield the offset of the data of each record, and the data as a view of the file.

    Only the checksums of the lengths are compared, so that a small feature can be read from a file of gigabytes;
    ``read_record`` compares those of the data.
    """
    with reading(path, UNPACK_AGAIN):
        size = path.stat().st_size
        view = np.memmap(path, np.uint8, mode="r").data if size else memoryview(b"")
    offset = 0
    while offset < size:
        if offset + 12 > size:
            raise damaged_file(path, "it is truncated")
        header = bytes(view[offset : offset + 8])
        if _masked(header) != struct.unpack("<I", view[offset + 8 : offset + 12])[0]:
            raise damaged_file(path, f"the record at byte {offset} has a wrong checksum")
        (length,) = struct.unpack("<Q", header)
        start = offset + 12
        offset = start + length + 4
        if offset > size:
            raise damaged_file(path, "it is truncated")
        yield start, view[start : start + length]


def read_record(path: Path, start: int, length: int) -> bytes:
    """Return the data of one record after comparing their checksum."""
    with reading(path, UNPACK_AGAIN), path.open("rb") as file:
        file.seek(start)
        data, checksum = file.read(length), file.read(4)
    if len(data) < length or len(checksum) < 4:
        raise damaged_file(path, "it is truncated")
    if _masked(data) != struct.unpack("<I", checksum)[0]:
        raise damaged_file(path, f"the record at byte {start - 12} has a wrong checksum")
    return data


def parse_example(data: Content, path: Path) -> dict[str, Values]:
    """Return the features of a tf.train.Example by name; ``path`` is for the error message."""
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
    """Compute the Castagnoli checksum; bytes contribute independently, so a block is one table lookup."""
    tables = _tables()
    positions = np.arange(BLOCK)
    head = len(data) % BLOCK
    last = tables[-1].tolist()
    state = 0xFFFFFFFF
    for byte in data[:head]:
        state = (state >> 8) ^ last[(state ^ byte) & 0xFF]
    blocks = np.frombuffer(data, np.uint8, offset=head).reshape(-1, BLOCK) if len(data) > head else ()
    for block in blocks:
        own = np.bitwise_xor.reduce(tables[positions, block])
        carried = [int(tables[i, (state >> 8 * i) & 0xFF]) for i in range(4)]
        state = int(own) ^ carried[0] ^ carried[1] ^ carried[2] ^ carried[3]
    return state ^ 0xFFFFFFFF


def _masked(data: bytes) -> int:
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + MASK) & 0xFFFFFFFF


@cache
def _tables() -> np.ndarray:
    """Return (BLOCK, 256): the contribution of each byte value at each position to the checksum of a block."""
    tables = np.empty((BLOCK, 256), np.uint32)
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(POLYNOMIAL), table >> 1)
    tables[-1] = table
    for position in range(BLOCK - 2, -1, -1):
        later = tables[position + 1]
        tables[position] = table[later & 0xFF] ^ (later >> 8)
    return tables


def _feature(entry: Content) -> tuple[str, Values]:
    """Parse an entry: field 1 is the name, field 2 a list of one of three kinds."""
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
    """Parse one integer, or several packed together, of 64 bits with a sign."""
    if isinstance(packed, int):
        numbers = [packed]
    else:
        numbers, offset = [], 0
        while offset < len(packed):
            number, offset = _varint(packed, offset)
            numbers.append(number)
    return [x - (1 << 64) if x >> 63 else x for x in numbers]


def _messages(data: Content, field: int) -> Iterator[Content]:
    """Yield the contents of all fields with the number ``field``."""
    for number, _, content in _fields(data):
        if number == field:
            if isinstance(content, int):
                raise ValueError
            yield content


def _fields(data: Content) -> Iterator[tuple[int, int, int | Content]]:
    """Yield number, wire type and content of each field of a protobuf message."""
    offset = 0
    while offset < len(data):
        tag, offset = _varint(data, offset)
        wire = tag & 7
        if wire == 0:
            content: int | Content
            content, offset = _varint(data, offset)
        else:
            length = {1: 8, 5: 4}.get(wire, 0)
            if wire == 2:
                length, offset = _varint(data, offset)
            if wire not in (1, 2, 5) or offset + length > len(data):
                raise ValueError
            content, offset = data[offset : offset + length], offset + length
        yield tag >> 3, wire, content


def _varint(data: Content, offset: int) -> tuple[int, int]:
    """Return a number stored in groups of seven bits, the lowest first, and the offset behind it."""
    number = shift = 0
    while shift < 70:
        byte = data[offset]
        number |= (byte & 0x7F) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 0x80:
            return number, offset
    raise ValueError
