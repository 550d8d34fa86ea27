"""The format of a file: one interpretation, and no cost that does not follow from its size."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pytest

from filmtransfer.errors import UpdateFileError
from filmtransfer.files import read_at_most
from filmtransfer.model import Update, tensor_file
from filmtransfer.model.tensor_file import pack, read_json, unpack

ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def crafted(header: Any, data: bytes = b"") -> bytes:
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    return struct.pack("<Q", len(text)) + text + data


def test_every_type_that_an_update_has_is_read_as_it_was_written():
    tensors = {
        kind: np.arange(6, dtype=kind).reshape(2, 3) for kind in ("f8", "f4", "i8", "i2", "i1", "u1")
    } | {"none": np.empty((0, 2), np.float32)}
    read, document = unpack(pack(tensors, "about", '{"a": [1, 2.5]}'), "about", "x", "")
    assert document == {"a": [1, 2.5]}
    assert read.keys() == tensors.keys()
    for name, array in tensors.items():
        np.testing.assert_array_equal(read[name], array, strict=True)
        assert read[name].flags.writeable


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (crafted({"x": ENTRY | {"dtype": "BF16"}}, bytes(8)), "unknown type 'BF16'"),
        (crafted({"x": ENTRY | {"shape": [2**62]}}, bytes(8)), "not possible"),
        (crafted({"x": ENTRY | {"shape": [0, 2**40]}}), "not possible"),
        (crafted({"x": ENTRY | {"shape": [-2]}}, bytes(8)), "not possible"),
        (crafted({"x": ENTRY, "y": ENTRY}, bytes(8)), "not where it should be"),
        (crafted({"x": ENTRY}, bytes(12)), "does not end"),
        (crafted('{"x": {}, "x": {}}'), "two entries"),
        (crafted("{" + '"a":{' * 3000), "not a complete"),
        (crafted('{"a":' + "[" * 30 + "]" * 30 + "}"), "nested too deeply"),
        (crafted('{"a":' + "9" * 50 + "}"), "too long"),
        (struct.pack("<Q", 2**63) + b"{}", "not complete, or too long"),
        (crafted("{" + " " * 20_000_001 + "}"), "not complete, or too long"),
    ],
)
def test_a_crafted_header_is_refused(content, reason):
    with pytest.raises(UpdateFileError, match=reason):
        unpack(content, "about", "x", "")


def test_metadata_are_counted_before_they_are_parsed(monkeypatch):
    monkeypatch.setattr(tensor_file, "MAX_UPDATE_VALUES", 10)
    monkeypatch.setattr(json, "loads", lambda *_, **__: pytest.fail("it was parsed"))
    with pytest.raises(ValueError, match="more than 10 values"):
        read_json("[" * 11)


def test_numbers_that_json_does_not_have_become_null():
    assert read_json('[NaN, -Infinity, 1e999, 1e-999, {"a": Infinity}]') == [
        None,
        None,
        None,
        0.0,
        {"a": None},
    ]


def test_texts_of_the_document_are_limited(monkeypatch):
    monkeypatch.setattr(tensor_file, "MAX_UPDATE_TEXT", 5)
    assert unpack(pack({}, "key", '{"a": ["12345"]}'), "key", "x", "")[1] == {"a": ["12345"]}
    for document in ('{"a": ["123456"]}', '{"a": {"123456": 1}}', '"123456"'):
        with pytest.raises(UpdateFileError, match="more than 5 characters"):
            unpack(pack({}, "key", document), "key", "x", "")


def test_a_file_above_the_limit_is_not_read(tmp_path):
    huge = tmp_path / "huge.safetensors"
    with huge.open("wb") as file:
        file.truncate(50_000_000_000)
    with pytest.raises(UpdateFileError, match="larger than"):
        Update.load(huge)
    small = tmp_path / "small"
    small.write_bytes(b"12345")
    assert read_at_most(small, 5) == b"12345"
    with pytest.raises(UpdateFileError, match="larger than"):
        read_at_most(small, 4, UpdateFileError)
    with pytest.raises(UpdateFileError, match="not a regular file"):
        read_at_most("/dev/zero", 1_000_000, UpdateFileError)
