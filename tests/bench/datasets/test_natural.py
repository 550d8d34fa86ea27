"""The natural sets, each read from archives in its publisher's true format."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from filmtransfer.bench.datasets import load_dataset
from filmtransfer.bench.datasets.cifar import read_cifar
from filmtransfer.data import decode
from filmtransfer.errors import FitError, InputError, UpdateFileError
from tests.bench.datasets import archive_builders
from tests.bench.datasets.archive_builders import jpeg, tar, zipped


def matrices(**values: np.ndarray) -> bytes:
    stream = io.BytesIO()
    savemat(stream, values)
    return stream.getvalue()


def put(file: Path, content: bytes) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def flowers(root: Path, drop: str = "") -> None:
    """204 images: of each kind one to train on, and one to test or validate on."""
    images = {f"jpg/image_{i:05d}.jpg": jpeg(i, 16) for i in range(1, 205)}
    images.pop(drop, None)
    tar(root / "102flowers.tgz", images)
    put(root / "imagelabels.mat", matrices(labels=np.array([[(i % 102) + 1 for i in range(204)]], np.uint8)))
    ids = {"trnid": np.arange(1, 103), "valid": np.arange(103, 105), "tstid": np.arange(105, 205)}
    put(
        root / "setid.mat",
        matrices(**{name: numbers[None].astype(np.uint16) for name, numbers in ids.items()}),
    )


def test_cifar_pickles_and_binary_records_agree(tmp_path):
    tar(tmp_path / "a" / "cifar-100-python.tar.gz", archive_builders.cifar100_python())
    tar(tmp_path / "b" / "cifar100" / "cifar-100-binary.tar.gz", archive_builders.cifar100_binary())
    python, binary = load_dataset("cifar100", tmp_path / "a"), load_dataset("cifar100", tmp_path / "b")
    assert python.classes == binary.classes == [f"thing_{i}" for i in range(100)]
    assert python.train.labels.tolist() == binary.train.labels.tolist() == [1, 18, 35, 52, 69, 86]
    assert np.array_equal(python.train.sources, binary.train.sources)
    row = archive_builders.rows(1, 6)[2]
    assert python.train.sources[2][5, 7].tolist() == [row[c * 1024 + 5 * 32 + 7] for c in range(3)]
    assert list(python.train.keys) == ["0", "1", "2", "3", "4", "5"]
    assert (len(python.test), len(binary.test)) == (3, 3)


def test_cifar10(tmp_path):
    tar(tmp_path / "cifar-10-python.tar.gz", archive_builders.cifar10_python())
    got = load_dataset("cifar10", tmp_path)
    assert got.classes == [f"kind_{i}" for i in range(10)]
    assert got.train.labels.tolist() == [1, 2, 2, 3, 3, 4, 4, 5, 5, 6]
    assert np.array_equal(got.test.sources[1].transpose(2, 0, 1).reshape(-1), archive_builders.rows(6, 2)[1])


def test_a_pickle_that_would_execute_code_is_rejected(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "harm"),)

    for name, member in (("train", Evil()), ("meta", [Evil()])):
        for file, content in archive_builders.cifar100_python(
            **{name: archive_builders.pickled(member)}
        ).items():
            put(tmp_path / name / file, content)
        with pytest.raises(UpdateFileError, match=rf"{name} would run posix\.mkdir"):
            read_cifar(tmp_path / name, 100)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("train", archive_builders.pickled({"data": archive_builders.rows(1, 4)})[:-500]),
        ("train", b""),
        ("train", archive_builders.pickled([1, 2])),
        ("train", archive_builders.pickled({"data": archive_builders.rows(1, 4), "fine_labels": [1, 2]})),
        ("test", archive_builders.pickled({"data": archive_builders.rows(1, 1), "fine_labels": [100]})),
        ("meta", archive_builders.pickled({"fine_label_names": ["one"]})),
    ],
)
def test_damaged_pickles_are_named(tmp_path, name, content):
    for file, good in archive_builders.cifar100_python(**{name: content}).items():
        put(tmp_path / file, good)
    with pytest.raises(UpdateFileError, match="cifar-100-python"):
        read_cifar(tmp_path, 100)


def test_truncated_records_and_missing_files_are_named(tmp_path):
    for file, content in archive_builders.cifar100_binary().items():
        put(tmp_path / file, content)
    put(
        tmp_path / "cifar-100-binary" / "train.bin",
        archive_builders.cifar100_binary()["cifar-100-binary/train.bin"][:-9],
    )
    with pytest.raises(UpdateFileError, match=r"train\.bin is damaged.*complete records"):
        read_cifar(tmp_path, 100)
    (tmp_path / "cifar-100-binary" / "train.bin").unlink()
    with pytest.raises(InputError, match="cifar-100-python"):
        read_cifar(tmp_path, 100)


def test_flowers_follow_the_published_ids(tmp_path):
    flowers(tmp_path / "flowers102")
    got = load_dataset("oxford_flowers102", tmp_path)
    assert (got.name, len(got.classes), len(got.train), len(got.test)) == ("flowers102", 102, 102, 100)
    assert (got.classes[0], got.classes[73], got.classes[-1]) == ("pink primrose", "rose", "blackberry lily")
    assert got.train.labels.tolist() == list(range(102))
    assert got.test.labels[:3].tolist() == [2, 3, 4]
    assert got.test.keys[0] == "image_00105.jpg"
    assert decode(got.test.sources[0]).size == (16, 16)


def test_flowers_with_a_missing_image_or_a_wrong_list(tmp_path):
    flowers(tmp_path / "a", drop="jpg/image_00007.jpg")
    with pytest.raises(InputError, match=r"1 of the 102 images.*image_00007"):
        load_dataset("flowers102", tmp_path / "a")
    flowers(tmp_path / "b")
    put(tmp_path / "b" / "setid.mat", matrices(trnid=np.array([[999]], np.uint16)))
    with pytest.raises(UpdateFileError, match=r"setid\.mat is damaged.*204 labels"):
        load_dataset("flowers102", tmp_path / "b")
    flowers(tmp_path / "d")
    (tmp_path / "d" / "imagelabels.mat").write_bytes((tmp_path / "d" / "imagelabels.mat").read_bytes()[:140])
    with pytest.raises(UpdateFileError, match=r"imagelabels\.mat is damaged"):
        load_dataset("flowers102", tmp_path / "d")


def test_pets_follow_the_published_lists(tmp_path):
    archive_builders.pets(tmp_path)
    got = load_dataset("pets", tmp_path)
    assert (len(got.classes), len(got.train), len(got.test)) == (37, 74, 37)
    assert got.classes[:2] == ["Great_breed_a0", "Great_breed_b1"]
    assert got.train.labels.tolist() == [breed for breed in range(37) for _ in range(2)]
    assert got.train.keys[1] == "Great_breed_a0_2.jpg"
    assert decode(got.train.sources[0]).size == (16, 16)


def test_a_broken_list_of_pets_is_named(tmp_path):
    archive_builders.pets(tmp_path, breeds=3)
    lines = b"Great_breed_a0_1 one 1 1"
    tar(tmp_path / "oxford_pets" / "annotations.tar.gz", {"annotations/trainval.txt": lines})
    with pytest.raises(InputError, match=r"no annotations/test\.txt"):
        load_dataset("oxford_pets", tmp_path)
    put(tmp_path / "oxford_pets" / "unpacked" / "annotations" / "test.txt", b"")
    with pytest.raises(UpdateFileError, match=r"trainval\.txt is damaged"):
        load_dataset("oxford_pets", tmp_path)


@pytest.mark.slow
def test_caltech_has_the_background_and_thirty_of_each_class(tmp_path):
    inner = {}
    for c in range(102):
        name = "BACKGROUND_Google" if c == 0 else f"thing_{c:03d}"
        inner |= {f"101_ObjectCategories/{name}/image_{i:04d}.jpg": jpeg(i, 8) for i in range(1, 33)}
    packed = tar(tmp_path / "inner.tar.gz", inner).read_bytes()
    zipped(tmp_path / "caltech-101.zip", {"caltech-101/101_ObjectCategories.tar.gz": packed})
    got = load_dataset("caltech101", tmp_path)
    assert (len(got.classes), got.classes[0]) == (102, "background_google")
    assert np.bincount(got.train.labels).tolist() == [30] * 102
    assert np.bincount(got.test.labels).tolist() == [2] * 102
    assert not {str(p) for p in got.train.sources} & {str(p) for p in got.test.sources}
    assert any("drawn at random" in note for note in got.notes)
    again = load_dataset("caltech101", tmp_path)
    assert [str(p) for p in again.train.sources] == [str(p) for p in got.train.sources]


def sun(root: Path) -> None:
    images = {f"SUN397/a/abbey/sun_{i}.jpg": jpeg(i, 8) for i in range(3)}
    images |= {f"SUN397/c/church/outdoor/sun_{i}.jpg": jpeg(i, 8) for i in range(3)}
    tar(root / "SUN397.tar.gz", images)
    lists = {
        f"{name}_01.txt": f"/a/abbey/sun_{i}.jpg\n/c/church/outdoor/sun_{i}.jpg\n".encode()
        for i, name in PARTS
    }
    zipped(root / "Partitions.zip", lists)


PARTS = ((0, "Training"), (1, "Testing"))


def test_sun_uses_its_own_partition_or_that_of_vtab(tmp_path):
    sun(tmp_path / "sun397")
    own = load_dataset("sun397", tmp_path)
    assert own.classes == ["/a/abbey", "/c/church/outdoor"]
    assert [Path(p).name for p in own.test.sources] == ["sun_1.jpg", "sun_1.jpg"]
    assert own.train.keys == ()
    assert any("2 classes; Sun397 has 397" in note for note in own.notes)
    for split, i in (("tr", 2), ("te", 0), ("va", 1)):
        put(tmp_path / "sun397" / "unpacked" / f"sun397_tfds_{split}.txt", f"/a/abbey/sun_{i}.jpg\n".encode())
    tfds = load_dataset("sun397", tmp_path)
    assert list(tfds.train.keys) == ["/a/abbey/sun_2.jpg"]
    assert [Path(p).name for p in tfds.test.sources] == ["sun_0.jpg"]


def test_svhn_label_ten_is_the_digit_zero(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 5), dtype=np.uint8)
    labels = np.array([[1], [10], [3], [9], [10]], np.uint8)
    for split in ("train", "test"):
        put(tmp_path / "svhn" / f"{split}_32x32.mat", matrices(X=images, y=labels))
    got = load_dataset("svhn", tmp_path)
    assert got.classes == list("0123456789")
    assert got.train.labels.tolist() == [1, 0, 3, 9, 0]
    assert np.array_equal(got.train.sources[3], images[..., 3])
    put(tmp_path / "svhn" / "test_32x32.mat", matrices(X=images, y=labels[:3]))
    with pytest.raises(UpdateFileError, match=r"test_32x32\.mat is damaged.*3 labels"):
        load_dataset("svhn", tmp_path)
    (tmp_path / "svhn" / "test_32x32.mat").unlink()
    with pytest.raises(FitError, match=r"Download test_32x32\.mat from"):
        load_dataset("svhn", tmp_path)


def test_dtd_uses_its_first_split(tmp_path):
    names = [f"{texture}/{texture}_{i:04d}.jpg" for texture in ("banded", "woven") for i in (1, 2, 3)]
    members = {f"dtd/images/{name}": jpeg(i, 8) for i, name in enumerate(names)}
    for i, split in enumerate(("train1", "val1", "test1")):
        members[f"dtd/labels/{split}.txt"] = "\n".join(names[i::3]).encode()
    tar(tmp_path / "dtd-r1.0.1.tar.gz", members, mode="w")  # as published: a tar that is called .tar.gz
    got = load_dataset("dtd", tmp_path)
    assert got.classes == ["banded", "woven"]
    assert list(got.train.keys) == ["banded/banded_0001.jpg", "woven/woven_0001.jpg"]
    assert got.test.labels.tolist() == [0, 1]
    assert decode(got.test.sources[1]).size == (8, 8)
