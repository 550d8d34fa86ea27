"""Files of data sets after they were unpacked: arrays, matrices, tables, records, pickles and lists."""

from __future__ import annotations

import io
import json
import random
import struct
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
from scipy.io import savemat

from filmtransfer.bench.datasets import cifar, tfrecord
from filmtransfer.bench.datasets.dataset import RawDataset
from filmtransfer.bench.datasets.matlab import read_matlab
from filmtransfer.bench.datasets.parquet import read_parquet
from filmtransfer.bench.datasets.plain_formats import read_lists, read_npz
from filmtransfer.bench.datasets.smallnorb import read_matrix
from filmtransfer.errors import FitError, InputError
from tests.bench.datasets import archive_builders
from tests.fuzz.mutation import mutate_bytes

CLASSES = 100


def seeds() -> list[bytes]:
    return [bytes([kind]) + content for kind, (build, _) in enumerate(FORMATS) for content in build()]


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Change the data of TFRecords, with valid checksums."""
    kind = data[0] % len(FORMATS) if data else 0
    content = data[1:]
    if FORMATS[kind][1] is _tfrecord:
        length = int.from_bytes(content[:8], "little")
        content = _record(mutate_bytes(content[12 : 12 + min(length, 1 << 20)], [content], rng))
        return bytes([kind]) + content
    return bytes([kind]) + mutate_bytes(content, [content], rng)


def run(data: bytes) -> None:
    kind = data[0] % len(FORMATS) if data else 0
    with tempfile.TemporaryDirectory() as folder, suppress(FitError):
        FORMATS[kind][1](Path(folder), data[1:])


def _use(raw: RawDataset) -> None:
    """Read the first and the last image of each split, as a sweep does."""
    for split in (raw.train, raw.test):
        for index in {0, len(split.labels) - 1} if len(split.labels) else ():
            with suppress(InputError, OSError):  # of Pillow: decoding reports the reason
                np.asarray(split.sources[index])


def _npz(folder: Path, content: bytes) -> None:
    file = folder / "x.npz"
    file.write_bytes(content)
    _use(read_npz(file))


def _matlab(folder: Path, content: bytes) -> None:
    file = folder / "x.mat"
    file.write_bytes(content)
    read_matlab(file, "labels")


def _norb(folder: Path, content: bytes) -> None:
    file = folder / "x-dat.mat"
    file.write_bytes(content)
    np.array(read_matrix(file)[0])


def _parquet(folder: Path, content: bytes) -> None:
    for split in ("train", "test"):
        (folder / f"{split}-0.parquet").write_bytes(content)
    _use(read_parquet(folder))


def _tfrecord(folder: Path, content: bytes) -> None:
    file = folder / "x.tfrecord"
    file.write_bytes(content)
    for start, view in tfrecord.record_spans(file):
        tfrecord.parse_example(tfrecord.read_record(file, start, len(view)), file)
        tfrecord.parse_example(view, file)


def _pickle(folder: Path, content: bytes) -> None:
    home = folder / "cifar-100-python"
    home.mkdir()
    for name in ("train", "test", "meta"):
        (home / name).write_bytes(content)
    _use(cifar.read_cifar(folder, CLASSES))


def _lists(folder: Path, content: bytes) -> None:
    for name in ("train800val200.txt", "test.txt"):
        (folder / name).write_bytes(content)
    read_lists(folder)


def _npz_seeds() -> list[bytes]:
    seeds = []
    for save in (np.savez, np.savez_compressed):
        file = io.BytesIO()
        images = np.zeros((2, 4, 4, 3), np.uint8)
        save(
            file, train_x=images, train_y=np.arange(2), test_x=images, test_y=np.arange(2), classes=["a", "b"]
        )
        seeds.append(file.getvalue())
    return seeds


def _matlab_seeds() -> list[bytes]:
    seeds = []
    for compressed in (False, True):
        file = io.BytesIO()
        savemat(file, {"other": np.eye(2), "labels": np.arange(1, 5)}, do_compression=compressed)
        seeds.append(file.getvalue())
    return seeds


def _norb_seeds() -> list[bytes]:
    return [np.array([0x1E3D4C55, 4, 2, 2, 3, 3], "<i4").tobytes() + bytes(36)]


def _parquet_seeds() -> list[bytes]:
    seeds = []
    images = [{"bytes": archive_builders.jpeg(i, 8), "path": f"{i}.jpg"} for i in range(2)]
    features = {"label": {"_type": "ClassLabel", "names": ["a", "b"]}, "image": {"_type": "Image"}}
    metadata = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    table = pyarrow.table({"image": images, "label": [0, 1]}).replace_schema_metadata(metadata)
    for compression in ("none", "snappy", "gzip"):
        file = io.BytesIO()
        pyarrow.parquet.write_table(table, file, compression=compression)
        seeds.append(file.getvalue())
    return seeds


def _tfrecord_seeds() -> list[bytes]:
    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    kinds = [
        field(1, field(1, b"JPEG")),
        field(2, field(1, struct.pack("<2f", 1, 2))),
        field(3, field(1, b"\1\2")),
    ]
    entries = [
        field(1, field(1, name) + field(2, kind))
        for name, kind in zip((b"image", b"x", b"y"), kinds, strict=True)
    ]
    return [_record(field(1, b"".join(entries)))]


def _record(content: bytes) -> bytes:
    header = struct.pack("<Q", len(content))
    return b"".join(part + struct.pack("<I", tfrecord._masked(part)) for part in (header, content))


def _pickle_seeds() -> list[bytes]:
    members = archive_builders.cifar100_python()
    return [content for name, content in members.items() if name.endswith(("train", "meta"))]


def _list_seeds() -> list[bytes]:
    return [b"images/000000.png 3\n", "# comment\n../x.png 3\nä b.png 10\n".encode()]


FORMATS: tuple[tuple[Callable[[], list[bytes]], Callable[[Path, bytes], None]], ...] = (
    (_npz_seeds, _npz),
    (_matlab_seeds, _matlab),
    (_norb_seeds, _norb),
    (_parquet_seeds, _parquet),
    (_tfrecord_seeds, _tfrecord),
    (_pickle_seeds, _pickle),
    (_list_seeds, _lists),
)
