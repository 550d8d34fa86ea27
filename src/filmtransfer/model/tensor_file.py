"""Named arrays and one JSON document as the bytes of a .safetensors file; no other module knows this format.

A file begins with the length of a header and the header, a JSON document with type, shape and location of each array.
All of it is checked against the budgets before any array is made, and arrays are views into one copy of the file: what
a file can cost follows from its size. Nothing in a file is ever run.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from safetensors.numpy import save as serialise

from ..budgets import (
    MAX_UPDATE_BYTES,
    MAX_UPDATE_DEPTH,
    MAX_UPDATE_DIGITS,
    MAX_UPDATE_DIMENSIONS,
    MAX_UPDATE_HEADER,
    MAX_UPDATE_TENSORS,
    MAX_UPDATE_TEXT,
    MAX_UPDATE_VALUES,
)
from ..errors import UpdateFileError, first_line

NOT_AN_UPDATE = "An update file is a .safetensors file, as written by 'fit train' or by the service."
METADATA = "__metadata__"
DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I16": "<i2", "I8": "<i1", "U8": "<u1"}


def pack(tensors: Mapping[str, np.ndarray], key: str, metadata: str) -> bytes:
    """Return the content of a file; ``metadata`` is a JSON text, stored under ``key``."""
    return serialise({name: np.asarray(t, order="C") for name, t in tensors.items()}, {key: metadata})


def unpack(content: bytes, key: str, source: str, hint: str) -> tuple[dict[str, np.ndarray], Any]:
    """Return the tensors, and the document stored under ``key`` or None."""
    if content[8:9] not in (b"{", b""):
        raise UpdateFileError(f"{source} is not an update file.", NOT_AN_UPDATE)
    try:
        header, start = _read_header(content)
        metadata = header.pop(METADATA, {})
        document = read_json(metadata.get(key, "null"))
        _check_texts(document)
        return _read_tensors(bytearray(memoryview(content)[start:]), header), document
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UpdateFileError(
            f"{source} is not a complete update file ({first_line(error)}).", hint
        ) from None


def read_json(text: str) -> Any:
    """Parse JSON within the budgets; numbers that are not finite become null."""
    if sum(map(text.count, ",[{")) > MAX_UPDATE_VALUES:
        raise ValueError(f"it holds more than {MAX_UPDATE_VALUES:,} values")
    document = json.loads(
        text,
        parse_constant=lambda _: None,
        parse_float=_finite,
        parse_int=_integer,
        object_pairs_hook=_table,
    )
    _check_depth(document)
    return document


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _integer(text: str) -> int:
    if len(text) > MAX_UPDATE_DIGITS:
        raise ValueError("a number in it is too long")
    return int(text)


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("it has two entries of one name")
    return table


def _check_depth(value: Any, depth: int = 0) -> None:
    if depth > MAX_UPDATE_DEPTH:
        raise ValueError("its metadata are nested too deeply")
    if isinstance(value, list | dict):
        for one in value.values() if isinstance(value, dict) else value:
            _check_depth(one, depth + 1)


def _check_texts(value: Any) -> None:
    texts = [value] if isinstance(value, str) else []
    if isinstance(value, list | dict):
        for one in value.values() if isinstance(value, dict) else value:
            _check_texts(one)
        texts = list(value) if isinstance(value, dict) else []
    if any(len(text) > MAX_UPDATE_TEXT for text in texts):
        raise ValueError(f"a text in it has more than {MAX_UPDATE_TEXT:,} characters")


def _read_header(content: bytes) -> tuple[dict[str, Any], int]:
    """Return the header, and where the arrays begin."""
    if len(content) < 8:
        raise ValueError("it is too short")
    (length,) = struct.unpack("<Q", content[:8])
    if length > min(MAX_UPDATE_HEADER, len(content) - 8):
        raise ValueError("its header is not complete, or too long")
    header = read_json(content[8 : 8 + length].decode())
    if len(header) > MAX_UPDATE_TENSORS:
        raise ValueError(f"it holds more than {MAX_UPDATE_TENSORS:,} tensors")
    return header, 8 + length


def _read_tensors(data: bytearray, header: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return views of the arrays, which have to fill the data without a gap or an overlap."""
    located = sorted((tuple(entry["data_offsets"]), name) for name, entry in header.items())
    position, tensors = 0, {}
    for (begin, end), name in located:
        size, shape = _layout(header[name])
        if type(begin) is not int or type(end) is not int or begin != position or end != begin + size:
            raise ValueError(f"{name!r} is not where it should be")
        tensors[name] = _view(data, header[name]["dtype"], shape, begin)
        position = end
    if position != len(data):
        raise ValueError("it does not end where it should")
    return {name: tensors[name] for name in header}


def _layout(entry: dict[str, Any]) -> tuple[int, list[int]]:
    """Return the bytes and the shape of an array."""
    shape, dtype = entry["shape"], entry["dtype"]
    if dtype not in DTYPES:
        raise ValueError(f"its numbers are of the unknown type {dtype!r}")
    if len(shape) > MAX_UPDATE_DIMENSIONS or not all(type(side) is int and side >= 0 for side in shape):
        raise ValueError("a shape in it is not possible")
    width = np.dtype(DTYPES[dtype]).itemsize
    if width * math.prod(max(side, 1) for side in shape) > MAX_UPDATE_BYTES:
        raise ValueError("a shape in it is not possible")
    return width * math.prod(shape), shape


def _view(data: bytearray, dtype: str, shape: list[int], offset: int) -> np.ndarray:
    count = math.prod(shape)
    if not count:
        return np.empty(shape, DTYPES[dtype])
    array = np.frombuffer(data, DTYPES[dtype], count, offset).reshape(shape)
    return array if array.flags.aligned else array.copy()
