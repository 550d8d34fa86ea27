"""Tiny archives in the publishers' formats: real bytes, few images."""

from __future__ import annotations

import io
import pickle
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def pixels(seed: int, side: int = 32) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)


def jpeg(seed: int, side: int = 32) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels(seed, side)).save(stream, "JPEG")
    return stream.getvalue()


def tar(file: Path, members: dict[str, bytes], mode: str = "w:gz") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, mode) as packed:  # type: ignore[call-overload]
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    return file


def zipped(file: Path, members: dict[str, bytes]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in members.items():
            packed.writestr(name, content)
    return file


def rows(seed: int, count: int) -> np.ndarray:
    """CIFAR's rows: 1024 reds, then greens, then blues."""
    return np.random.default_rng(seed).integers(0, 256, (count, 3072), dtype=np.uint8)


def pickled(content: Any) -> bytes:
    return pickle.dumps(content, protocol=2)


def cifar100_python(count: int = 6, **change: bytes) -> dict[str, bytes]:
    names = [f"thing_{i}" for i in range(100)]

    def batch(seed: int, number: int) -> bytes:
        fine = [(17 * i + seed) % 100 for i in range(number)]
        return pickled({"data": rows(seed, number), "fine_labels": fine, "coarse_labels": [0] * number})

    members = {"train": batch(1, count), "test": batch(2, 3), "meta": pickled({"fine_label_names": names})}
    return {f"cifar-100-python/{name}": content for name, content in (members | change).items()}


def cifar100_binary(count: int = 6) -> dict[str, bytes]:
    def records(seed: int, number: int) -> bytes:
        fine = [(17 * i + seed) % 100 for i in range(number)]
        return b"".join(
            bytes([0, y]) + row.tobytes() for y, row in zip(fine, rows(seed, number), strict=True)
        )

    names = "\n".join(f"thing_{i}" for i in range(100)) + "\n"
    members = {
        "train.bin": records(1, count),
        "test.bin": records(2, 3),
        "fine_label_names.txt": names.encode(),
    }
    return {f"cifar-100-binary/{name}": content for name, content in members.items()}


def cifar10_python() -> dict[str, bytes]:
    def batch(seed: int) -> bytes:
        return pickled({"data": rows(seed, 2), "labels": [seed % 10, (seed + 1) % 10]})

    members = {f"data_batch_{i}": batch(i) for i in range(1, 6)} | {"test_batch": batch(6)}
    members["batches.meta"] = pickled({"label_names": [f"kind_{i}" for i in range(10)]})
    return {f"cifar-10-batches-py/{name}": content for name, content in members.items()}


def pets(root: Path, breeds: int = 37) -> None:
    """Two training images and one test image of each breed, in the folder of the set."""
    images, lists = {}, {"trainval": ["#Image CLASS-ID SPECIES BREED ID"], "test": []}
    for breed in range(breeds):
        for i, split in ((1, "trainval"), (2, "trainval"), (10, "test")):
            name = f"Great_breed_{chr(97 + breed % 26)}{breed}_{i}"
            images[f"images/{name}.jpg"] = jpeg(breed + i, 16)
            lists[split].append(f"{name} {breed + 1} 1 1")
    tar(root / "oxford_pets" / "images.tar.gz", images)
    written = {f"annotations/{split}.txt": "\n".join(lines).encode() for split, lines in lists.items()}
    tar(root / "oxford_pets" / "annotations.tar.gz", written)
