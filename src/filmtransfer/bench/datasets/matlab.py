"""Read numeric matrices from MATLAB files of version 5.

scipy reads these too, but a few wrong bytes can crash its process, and with it a sweep. MathWorks describes the format
in "MAT-File Format": a header of 128 bytes is followed by elements, each with a type and a size; a matrix is an
element that contains elements: flags, dimensions, name, and the values column by column.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .unpacked import damaged_file, one_line

HEADER = 128
MATRIX, COMPRESSED = 14, 15
COMPLEX = 0x0800
# The stored type of values, and their type in MATLAB: integral doubles are often stored as bytes.
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
TYPES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}

Element = tuple[int, memoryview]


def read_matlab(file: Path, name: str) -> np.ndarray:
    """Return the matrix ``name``."""
    try:
        content = memoryview(file.read_bytes())
        order = {b"IM": "<", b"MI": ">"}[bytes(content[HEADER - 2 : HEADER])]
        for kind, data in _elements(content[HEADER:], order):
            if kind == COMPRESSED:
                kind, data = next(_elements(memoryview(zlib.decompress(data)), order))
            matrix = _matrix(data, order, name) if kind == MATRIX else None
            if matrix is not None:
                return matrix
    except KeyError:
        raise damaged_file(file, "it is not a MATLAB file of version 5") from None
    except (OSError, ValueError, StopIteration, struct.error, zlib.error) as error:
        raise damaged_file(file, one_line(error)) from None
    raise damaged_file(file, f"it has no matrix {name}")


def _elements(data: memoryview, order: str) -> Iterator[Element]:
    offset = 0
    while offset + 8 <= len(data):
        (word,) = struct.unpack_from(f"{order}I", data, offset)
        if word >> 16:  # a small element: size, type and up to four bytes of data in eight
            kind, size, start, end = word & 0xFFFF, word >> 16, offset + 4, offset + 8
        else:
            kind, (size,), start = word, struct.unpack_from(f"{order}I", data, offset + 4), offset + 8
            end = start + size + (0 if kind == COMPRESSED else -size % 8)
        if start + size > min(end, len(data)):
            raise ValueError("it is truncated")
        yield kind, data[start : start + size]
        offset = end


def _matrix(data: memoryview, order: str, name: str) -> np.ndarray | None:
    """Return the matrix if it has that name."""
    elements = _elements(data, order)
    flags, shape = _numeric_values(next(elements), order), _numeric_values(next(elements), order)
    if bytes(next(elements)[1]) != name.encode():
        return None
    kind = TYPES.get(int(flags[0]) & 0xFF)
    if kind is None or int(flags[0]) & COMPLEX:
        raise ValueError(f"{name} is not a numeric matrix")
    values = _numeric_values(next(elements), order)
    if min(shape, default=-1) < 0 or math.prod(int(side) for side in shape) != len(values):
        raise ValueError(f"{name} has {len(values)} values for a shape of {shape.tolist()}")
    return values.astype(kind).reshape(shape, order="F")


def _numeric_values(element: Element, order: str) -> np.ndarray:
    kind, data = element
    if kind not in STORED or not len(data):
        raise ValueError("it has no numbers where the format requires them")
    return np.frombuffer(data, order + STORED[kind])
