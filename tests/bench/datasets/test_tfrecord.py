"""TFRecord files and Examples, written here byte by byte from their specifications."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from filmtransfer.bench.datasets.tfrecord import crc32c, parse_example, read_record, record_spans
from filmtransfer.errors import InputError, UpdateFileError

Feature = int | bytes | list[int] | list[float]


def slow_crc32c(data: bytes) -> int:
    """Compute the checksum bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> bytes:
    crc = slow_crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def example(**features: Feature) -> bytes:
    """A tf.train.Example; bytes, integers (packed, as TensorFlow writes them) or floats."""
    entries = b""
    for name, value in features.items():
        if isinstance(value, bytes):
            feature = field(1, field(1, value))
        elif isinstance(value, list) and isinstance(value[0], float):
            feature = field(2, field(1, struct.pack(f"<{len(value)}f", *value)))
        else:
            numbers = value if isinstance(value, list) else [value]
            feature = field(3, field(1, b"".join(varint(int(n)) for n in numbers)))
        entries += field(1, field(1, name.encode()) + field(2, feature))
    return field(1, entries)


def test_checksums_published_for_iscsi():
    """RFC 3720, appendix B.4."""
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize("length", [0, 1, 3, 1023, 1024, 1025, 5000])
def test_checksum_equals_the_bitwise_one(rng: np.random.Generator, length: int):
    data = rng.integers(0, 256, length, dtype=np.uint8).tobytes()
    assert crc32c(data) == slow_crc32c(data)


def test_records_are_found_and_read(tmp_path: Path):
    contents = [b"one", b"", b"three" * 1000]
    file = tmp_path / "a.tfrecord"
    file.write_bytes(b"".join(map(record, contents)))
    spans = [(start, len(data)) for start, data in record_spans(file)]
    assert [read_record(file, *span) for span in spans] == contents
    assert [bytes(data) for _, data in record_spans(file)] == contents
    (tmp_path / "empty.tfrecord").write_bytes(b"")
    assert list(record_spans(tmp_path / "empty.tfrecord")) == []


@pytest.mark.parametrize("lost", [1, 4, 5, 9, 17])
def test_a_truncated_file(tmp_path: Path, lost: int):
    file = tmp_path / "a.tfrecord"
    file.write_bytes((record(b"whole") + record(b"half"))[:-lost])
    with pytest.raises(UpdateFileError, match=r"a\.tfrecord is damaged: it is truncated"):
        list(record_spans(file))


def test_a_wrong_byte_is_detected(tmp_path: Path):
    file = tmp_path / "a.tfrecord"
    whole = record(b"first") + record(b"second")
    second = len(record(b"first"))
    for place in (0, 8):  # a length, and its checksum
        file.write_bytes(_flipped(whole, second + place))
        with pytest.raises(UpdateFileError, match=f"record at byte {second} has a wrong checksum"):
            list(record_spans(file))
    for place in (12, 12 + len(b"second")):  # the data, and their checksum
        file.write_bytes(_flipped(whole, second + place))
        (start, data), (other, more) = record_spans(file)
        assert read_record(file, start, len(data)) == b"first"
        with pytest.raises(UpdateFileError, match=f"record at byte {second} has a wrong checksum"):
            read_record(file, other, len(more))


def test_a_file_that_was_deleted_or_truncated(tmp_path: Path):
    file = tmp_path / "a.tfrecord"
    with pytest.raises(InputError, match="cannot be read"):
        list(record_spans(file))
    with pytest.raises(InputError, match="cannot be read"):
        read_record(file, 12, 4)
    file.write_bytes(record(b"data")[:-6])
    with pytest.raises(UpdateFileError, match="truncated"):
        read_record(file, 12, 4)


def test_an_example_of_all_kinds():
    data = example(image=b"\x00\xff", label=5, many=[0, -1, 300, 2**63 - 1], scores=[0.5, -2.0])
    for form in (data, memoryview(data)):
        found = parse_example(form, Path("a"))
        assert {name: list(map(_plain, values)) for name, values in found.items()} == {
            "image": [b"\x00\xff"],
            "label": [5],
            "many": [0, -1, 300, 2**63 - 1],
            "scores": [0.5, -2.0],
        }


def test_integers_one_by_one_and_unknown_fields():
    """Protobuf allows unpacked lists, and readers skip unknown fields."""
    unpacked = varint(1 << 3) + varint(7) + varint(1 << 3) + varint(8)
    skipped = varint(9 << 3 | 5) + bytes(4) + varint(9 << 3 | 1) + bytes(8) + varint(9 << 3) + varint(3)
    entry = field(1, b"label") + field(2, field(3, unpacked))
    assert parse_example(skipped + field(1, field(1, entry)), Path("a")) == {"label": [7, 8]}


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a\x7f",  # longer than the message
        b"\x0b",  # a wire type that is no longer used
        b"\xff" * 12,  # a number that does not end
        varint(1 << 3) + varint(4),  # a number where a message has to be
        field(1, field(1, field(1, b"\xff\xfe"))),  # a name that is not text
        field(1, field(1, field(1, b"x") + field(2, field(2, field(1, bytes(3)))))),  # half a float
        field(1, field(1, field(1, b"x") + field(2, field(4, b"")))),  # a fourth kind of list
    ],
)
def test_invalid_examples(data: bytes):
    with pytest.raises(
        UpdateFileError, match=r"b\.tfrecord is damaged: a record is not a tf\.train\.Example"
    ):
        parse_example(data, Path("b.tfrecord"))


def _flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def _plain(value: object) -> object:
    return bytes(value) if isinstance(value, memoryview) else value
