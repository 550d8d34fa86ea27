"""DMLab: frames of a game, labelled by how far away an object is and whether it is a good one.

Published as TFRecord files, three splits. The label is in the record; which of the six numbers means which of
{close, far, very far} × {positive, negative} the publisher does not say.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from ...data.pixels import decode
from ...errors import InputError
from .dataset import DatasetEntry, ImageSplit, PublishedFile, RawDataset
from .lazy_sequence import LazySequence
from .tfrecord import Values, parse_example, read, spans
from .unpacked import check_labels, damaged_file, search_patterns

CLASSES = [str(c) for c in range(6)]
Place = tuple[Path, int, int]  # a file, where a record's data begin in it, and how long they are


def read_dmlab(root: Path) -> RawDataset:
    """From the unpacked dmlab.tar.gz."""
    train, val, test = (_read_split(root, split) for split in ("train", "validation", "test"))
    return RawDataset(list(CLASSES), train, test, val)


def _read_split(root: Path, split: str) -> ImageSplit:
    places: list[Place] = []
    labels: list[int] = []
    keys: list[str] = []
    files = _files(root, split)
    for file in files:
        for start, data in spans(file):
            example = parse_example(data, file)
            places.append((file, start, len(data)))
            labels.append(_label(example, file))
            keys.append(_content(example, "filename", file).decode(errors="replace"))
    images = LazySequence(len(places), lambda i: _image(places[i]))
    return ImageSplit(images, check_labels(labels, len(CLASSES), files[0]), keys)


def _files(root: Path, split: str) -> list[Path]:
    """dmlab-train.tfrecord, or its pieces dmlab-train.tfrecord-00000-of-00010 and so on, of which none lacks."""
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


def _image(place: Place) -> np.ndarray:
    """The image of a record, whose checksum is compared here, when it is used."""
    file, start, length = place
    example = parse_example(read(file, start, length), file)
    try:
        frame = Image.open(io.BytesIO(_content(example, "image", file)))
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


# google-research/task_adaptation, task_adaptation/data/dmlab.py: the three splits as they are. Checksum and
# names: tensorflow/datasets, tensorflow_datasets/url_checksums/dmlab.txt, image_classification/dmlab.py.
DMLAB = DatasetEntry(
    name="dmlab",
    title="DMLab",
    classes=len(CLASSES),
    home="https://github.com/google-research/task_adaptation",
    licence="none stated",
    files=(
        PublishedFile(
            "dmlab.tar.gz",
            "https://storage.googleapis.com/dmlab-vtab/dmlab.tar.gz",
            sha256="638b18fa69a5d61bbc310cd0b87ac603a39f41de0fdb07b6e77de274a24480a4",
            bytes=3017022789,
        ),
    ),
    read=read_dmlab,
    group="structured",
    markers=search_patterns("dmlab-train.tfrecord*"),
)
