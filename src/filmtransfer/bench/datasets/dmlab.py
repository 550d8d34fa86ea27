"""DMLab: frames of a game, labelled by the distance of an object and whether it gives a positive reward.

Published as TFRecord files with three splits. The record contains the label; the publisher does not document which of
the six numbers means which of {close, far, very far} × {positive, negative}.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import UnidentifiedImageError

from ...data.formats import identify
from ...data.pixels import decode
from ...errors import InputError
from .dataset import ImageSplit, RawDataset
from .lazy_sequence import LazySequence
from .tfrecord import Values, parse_example, read_record, record_spans
from .unpacked import check_labels, damaged_file, search_patterns

CLASSES = [str(c) for c in range(6)]
RecordSpan = tuple[Path, int, int]  # a file, the offset of a record's data, and their length


def read_dmlab(root: Path) -> RawDataset:
    """Read the unpacked dmlab.tar.gz."""
    train, val, test = (_read_split(root, split) for split in ("train", "validation", "test"))
    return RawDataset(list(CLASSES), train, test, val)


def _read_split(root: Path, split: str) -> ImageSplit:
    records: list[RecordSpan] = []
    labels: list[int] = []
    keys: list[str] = []
    files = _files(root, split)
    for file in files:
        for start, data in record_spans(file):
            example = parse_example(data, file)
            records.append((file, start, len(data)))
            labels.append(_label(example, file))
            keys.append(_content(example, "filename", file).decode(errors="replace"))
    images = LazySequence(len(records), lambda i: _image(records[i]))
    return ImageSplit(images, check_labels(labels, len(CLASSES), files[0]), keys)


def _files(root: Path, split: str) -> list[Path]:
    """Return dmlab-train.tfrecord, or all its parts dmlab-train.tfrecord-00000-of-00010 and so on."""
    for pattern in search_patterns(f"dmlab-{split}.tfrecord*"):
        if files := sorted(root.glob(pattern)):
            _, _, total = files[0].name.partition("-of-")
            if total and total.isdecimal() and int(total) != len(files):
                raise InputError(
                    f"{files[0].parent} has {len(files)} of the {int(total)} files of dmlab-{split}.tfrecord.",
                    "Unpack dmlab.tar.gz again.",
                )
            return files
    raise InputError(f"There is no dmlab-{split}.tfrecord in {root}.", "Unpack dmlab.tar.gz there.")


def _image(record: RecordSpan) -> np.ndarray:
    """Return the image of a record, after comparing the checksum of the record."""
    file, start, length = record
    example = parse_example(read_record(file, start, length), file)
    try:
        frame = identify(io.BytesIO(_content(example, "image", file)))
    except UnidentifiedImageError:
        raise damaged_file(file, f"the record at byte {start} holds no image") from None
    return np.asarray(decode(frame))


def _label(example: dict[str, Values], file: Path) -> int:
    match example.get("label"):
        case [int(label)]:
            return label
    raise damaged_file(file, "a record has no label")


def _content(example: dict[str, Values], name: str, file: Path) -> bytes:
    match example.get(name):
        case [bytes() | memoryview() as content]:
            return bytes(content)
    raise damaged_file(file, f"a record has no {name}")
