"""Datasets in generic formats: npz, folders, image lists, parquet; and malicious archives."""

from __future__ import annotations

import io
import json
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

from filmtransfer.bench.datasets import archives, load_dataset, load_vtab
from filmtransfer.bench.datasets.parquet import CACHED_GROUPS, ParquetImages
from filmtransfer.data import decode
from filmtransfer.errors import (
    FitError,
    InputError,
    MissingExtraError,
    UnavailableError,
    UpdateFileError,
    UsageError,
)
from tests.bench.datasets import archive_builders
from tests.bench.datasets.archive_builders import jpeg, pixels, tar, zipped


def save_npz(file: Path, count: int = 12, **change: object) -> Path:
    def images(n: int) -> np.ndarray:
        return np.stack([pixels(i, 8) for i in range(n)])

    arrays = {"train_x": images(count), "train_y": np.arange(count) % 3, "test_x": images(4)[..., 0]}
    arrays |= {"test_y": np.array([2, 1, 0, 0]), "classes": np.array(["ant", "bee", "cat"])}
    np.savez(file, **{name: value for name, value in (arrays | change).items() if value is not None})
    return file


def folders(root: Path, splits: dict[str, dict[str, int]]) -> None:
    for split, classes in splits.items():
        for name, count in classes.items():
            for i in range(count):
                file = root / split / name / f"{i}.jpg"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(jpeg(i, 8))


def test_an_npz_of_any_name(tmp_path):
    save_npz(tmp_path / "mine.npz")
    got = load_dataset("mine", tmp_path)
    assert (got.name, got.title, got.classes) == ("mine", "mine", ["ant", "bee", "cat"])
    assert got.train.labels.dtype == np.int64
    assert got.train.sources.shape == (12, 8, 8, 3)
    assert decode(got.test.sources[0]).mode == "RGB"
    assert got.source == str(tmp_path / "mine.npz")
    assert got.notes == []


def test_an_npz_without_names_numbers_its_classes(tmp_path):
    save_npz(tmp_path / "mine.npz", classes=None)
    assert load_dataset("mine", tmp_path).classes == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"test_y": None}, "lacks test_y"),
        ({"train_x": np.zeros((12, 8, 8), np.float32)}, "float32"),
        ({"train_x": np.zeros((11, 8, 8), np.uint8)}, "12 labels"),
        ({"train_y": np.arange(12) / 2}, "vector of integers"),
        ({"train_y": np.arange(12)}, "not one of 0 to 2"),
        ({"classes": np.array([{"a": 1}], dtype=object)}, "damaged"),  # objects could run code
    ],
)
def test_an_inconsistent_npz_is_named(tmp_path, change, message):
    file = save_npz(tmp_path / "mine.npz", **change)
    with pytest.raises(FitError, match=message) as caught:
        load_dataset("mine", tmp_path)
    assert str(file) in caught.value.message


def test_a_damaged_npz(tmp_path):
    file = save_npz(tmp_path / "mine.npz")
    whole = file.read_bytes()
    np.save(tmp_path / "array.npy", np.zeros(3))
    plain = (tmp_path / "array.npy").read_bytes()
    cut, holed = whole[: len(whole) // 2], whole[:300] + b"\0" * 50 + whole[350:]
    for content in (b"", b"PK\x03\x04 no", plain, cut, holed):
        file.write_bytes(content)
        with pytest.raises(UpdateFileError, match=r"mine\.npz is damaged"):
            load_dataset("mine", tmp_path)


def test_a_random_split_shuffles_all_images(tmp_path):
    save_npz(tmp_path / "mine.npz")
    folders(tmp_path / "other", {"train": {"a": 9, "b": 7}, "test": {"b": 4}})
    official, first = (load_dataset("other", tmp_path, split=s) for s in ("official", "random"))  # type: ignore[arg-type]
    second = load_dataset("other", tmp_path, split="random", seed=1)
    same = load_dataset("other", tmp_path, split="random", seed=0)

    def names(part):
        return [str(source) for source in part.sources]

    assert sorted(names(first.train) + names(first.test)) == sorted(
        names(official.train) + names(official.test)
    )
    assert (len(first.train), len(first.test)) == (16, 4)
    assert names(first.train) == names(same.train) != names(second.train)
    assert all(
        Path(p).parent.name == "ab"[y] for p, y in zip(first.train.sources, first.train.labels, strict=True)
    )
    assert "seed 1" in second.notes[-1]
    with pytest.raises(UsageError, match="official, random"):
        load_dataset("mine", tmp_path, split="half")  # type: ignore[arg-type]


def test_a_folder_per_class_is_numbered_by_name(tmp_path):
    folders(tmp_path / "mine", {"train": {"zebra": 2, "ant": 3}, "test": {"zebra": 1, "ant": 1}})
    got = load_dataset("mine", tmp_path)
    assert got.classes == ["ant", "zebra"]
    assert got.train.labels.tolist() == [0, 0, 0, 1, 1]
    assert decode(got.test.sources[1]).size == (8, 8)


def test_a_test_class_without_training_images_is_an_error(tmp_path):
    folders(tmp_path / "mine", {"train": {"ant": 1}, "test": {"ant": 1, "bee": 1}})
    with pytest.raises(InputError, match="no images of bee"):
        load_dataset("mine", tmp_path)


def lists(folder: Path, joined: bool = False) -> None:
    (folder / "images").mkdir(parents=True)
    counts = {"train800": 6, "val200": 3, "test": 4}
    lines: dict[str, list[str]] = {}
    for split, count in counts.items():
        lines[split] = [f"images/{split} {i}.png {i % 5}" for i in range(count)]
        for i in range(count):
            (folder / "images" / f"{split} {i}.png").write_bytes(jpeg(i, 8))
    if joined:
        lines["train800val200"] = lines.pop("train800") + lines.pop("val200")
    for name, content in lines.items():
        (folder / f"{name}.txt").write_text("\n".join(content) + "\n")


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize(
    "folder", ["smallnorb_azimuth", "vtab-1k/smallnorb_azi", "vtab-1k/smallnorb_azimuth"]
)
def test_the_image_lists_of_vtab(tmp_path, folder, joined):
    lists(tmp_path / folder, joined)
    for got in (load_dataset("smallnorb_azimuth", tmp_path), load_vtab("smallnorb_azimuth", tmp_path)):
        assert len(got.classes) == 18
        assert got.train.labels.tolist() == [0, 1, 2, 3, 4, 0, 0, 1, 2]
        assert got.test.labels.tolist() == [0, 1, 2, 3]
        assert Path(got.train.sources[6]).name == "val200 0.png"
        assert decode(got.train.sources[8]).size == (8, 8)
    assert "image lists" in got.notes[0]


def test_lists_that_are_damaged_or_name_missing_images(tmp_path):
    folder = tmp_path / "vtab-1k" / "svhn"
    lists(folder)
    (folder / "images" / "test 3.png").unlink()
    with pytest.raises(InputError, match=r"1 of the 4 images in .*test\.txt are missing.*test 3\.png"):
        load_vtab("svhn", tmp_path)
    (folder / "test.txt").write_text("images/test 0.png zero\n")
    with pytest.raises(UpdateFileError, match=r"test\.txt is damaged: line 1"):
        load_vtab("svhn", tmp_path)
    (folder / "test.txt").write_text("images/test 0.png 10\n")
    with pytest.raises(UpdateFileError, match="a label is 10, not one of 0 to 9"):
        load_vtab("svhn", tmp_path)


def parquet(
    file: Path, labels: list[int], column: str = "label", notes: bool = True, broken: int = -1
) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    contents = [jpeg(i, 8) if i != broken else b"no image" for i in range(len(labels))]
    image = pa.array(
        [{"bytes": c, "path": None} for c in contents],
        pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
    )
    table = pa.table({"img": image, "coarse_label": [0] * len(labels), column: pa.array(labels, pa.int64())})
    if notes:
        kinds = {"coarse_label": {"names": ["all"], "_type": "ClassLabel"}, "img": {"_type": "Image"}}
        kinds[column] = {"names": ["ant", "bee"], "_type": "ClassLabel"}
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": kinds}})})
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, file, row_group_size=2)


def test_parquet_as_the_hub_stores_it(tmp_path):
    parquet(tmp_path / "cifar100" / "data" / "train-00000-of-00002.parquet", [0, 1, 1], "fine_label")
    parquet(tmp_path / "cifar100" / "data" / "train-00001-of-00002.parquet", [1, 0], "fine_label")
    parquet(tmp_path / "cifar100" / "data" / "test-00000-of-00001.parquet", [1], "fine_label")
    got = load_dataset("cifar100", tmp_path)
    assert got.classes == ["ant", "bee"]
    assert got.train.labels.tolist() == [0, 1, 1, 1, 0]
    assert len(got.train.sources) == 5
    expected = [decode(making_file(tmp_path, i)).tobytes() for i in (0, 1, 2, 0, 1)]
    assert [decode(source).tobytes() for source in got.train.sources] == expected
    assert decode(got.train.select([4, 2]).sources[0]).tobytes() == expected[4]
    assert any("2 classes; CIFAR100 has 100" in note for note in got.notes)


def making_file(folder: Path, seed: int) -> Path:
    file = folder / f"{seed}.jpg"
    file.write_bytes(jpeg(seed, 8))
    return file


def test_parquet_caches_few_groups_and_names_damaged_files(tmp_path):
    many = tmp_path / "mine" / "train" / "0000.parquet"
    parquet(many, [i % 2 for i in range(40)], broken=5)
    images = ParquetImages([many], "img")
    assert decode(images[-1]).tobytes() == decode(images[39]).tobytes()
    with pytest.raises(InputError, match="not an image"):
        images[5]
    with pytest.raises(IndexError):
        images[40]
    assert [decode(images[i]).size for i in range(6, 40)] == [(8, 8)] * 34
    assert len(images._cached) == CACHED_GROUPS
    with pytest.raises(InputError, match="No test split"):
        load_dataset("mine", tmp_path)
    test = tmp_path / "mine" / "test" / "0000.parquet"
    parquet(test, [0], notes=False)
    assert len(load_dataset("mine", tmp_path).test) == 1
    test.write_bytes(test.read_bytes()[:-20])
    with pytest.raises(UpdateFileError, match=r"0000\.parquet is damaged"):
        load_dataset("mine", tmp_path)
    parquet(many, [0], notes=False)
    with pytest.raises(InputError, match="no class label column"):
        load_dataset("mine", tmp_path)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    parquet(tmp_path / "mine" / "train-0.parquet", [0])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match=r"\[bench\]"):
        load_dataset("mine", tmp_path)


def test_invalid_and_unknown_names(tmp_path):
    for name in ("../up", "a/b", "", ".hidden"):
        with pytest.raises(UsageError, match="cannot be named"):
            load_dataset(name, tmp_path)
    with pytest.raises(UnavailableError, match="not in the catalogue"):
        load_dataset("unheard_of", tmp_path)
    with pytest.raises(InputError, match="no data folder"):
        load_dataset("cifar10", tmp_path / "absent")


def left_behind(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize(
    "name", ["../escaped", "/tmp/filmtransfer-escaped", "a/../../escaped", "C:\\escaped", "..\\escaped"]
)
def test_archive_members_outside_the_folder_are_rejected(tmp_path, name):
    root = tmp_path / "data"
    for file in (
        tar(root / "a.tgz", {"fine": b"1", name: b"2"}),
        zipped(root / "b.zip", {"fine": b"1", name: b"2"}),
    ):
        with pytest.raises(UpdateFileError, match="outside the target folder"):
            archives.unpack([file], root / "out")
    assert left_behind(tmp_path) == ["data", "data/a.tgz", "data/b.zip"]


def test_links_out_of_the_folder_are_rejected(tmp_path):
    file = tmp_path / "a.tar"
    with tarfile.open(file, "w") as packed:
        link = tarfile.TarInfo("door")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        packed.addfile(link)
    with pytest.raises(UpdateFileError, match="outside the target folder"):
        archives.unpack([file], tmp_path / "out")
    assert left_behind(tmp_path) == ["a.tar"]


def test_a_hard_link_to_a_missing_member_is_a_damaged_archive(tmp_path):
    file = tmp_path / "a.tar"
    with tarfile.open(file, "w") as packed:
        link = tarfile.TarInfo("copy")
        link.type, link.linkname = tarfile.LNKTYPE, "original"
        packed.addfile(link)
    with pytest.raises(UpdateFileError, match=r"a\.tar cannot be unpacked \("):
        archives.unpack([file], tmp_path / "out")
    assert left_behind(tmp_path) == ["a.tar"]


def test_a_member_without_a_name_is_a_damaged_archive(tmp_path):
    file = zipped(tmp_path / "a.zip", {"fine": b"1", "x": b"2"})
    file.write_bytes(file.read_bytes().replace(b"x", b"\0"))  # zipfile ends a name at a null byte
    with pytest.raises(UpdateFileError, match=r"a\.zip cannot be unpacked \("):
        archives.unpack([file], tmp_path / "out")
    assert left_behind(tmp_path) == ["a.zip"]


def test_corrupt_archives_give_one_error_and_leave_nothing(tmp_path):
    root = tmp_path / "cifar100"
    file = tar(root / "cifar-100-python.tar.gz", archive_builders.cifar100_python())
    whole = file.read_bytes()
    for content in (
        whole[: len(whole) // 2],
        whole[:-8],
        b"",
        b"<html>not found</html>",
        whole[:5000] + b"\0" * 99 + whole[5099:],
    ):
        file.write_bytes(content)
        with pytest.raises(UpdateFileError, match=r"cifar-100-python\.tar\.gz cannot be unpacked"):
            load_dataset("cifar100", tmp_path)
        assert left_behind(root) == ["cifar-100-python.tar.gz"]
    file.write_bytes(whole)
    assert len(load_dataset("cifar100", tmp_path).train) == 6


def test_a_corrupt_zip(tmp_path):
    file = zipped(
        tmp_path / "caltech-101.zip", {"101_ObjectCategories/a/1.jpg": archive_builders.jpeg(1) * 20}
    )
    whole = file.read_bytes()
    for content in (whole[:-30], whole[:200] + b"\0" * 40 + whole[240:]):
        file.write_bytes(content)
        with pytest.raises(UpdateFileError, match=r"caltech-101\.zip cannot be unpacked"):
            load_dataset("caltech101", tmp_path)


def test_archives_are_unpacked_once(tmp_path, monkeypatch):
    archive_builders.pets(tmp_path, breeds=2)
    load_dataset("oxford_pets", tmp_path)
    monkeypatch.setattr(archives, "_extract", lambda *_: pytest.fail("unpacked again"))
    assert len(load_dataset("oxford_pets", tmp_path).classes) == 2
    assert sorted(p.name for p in (tmp_path / "oxford_pets").iterdir()) == [
        "annotations.tar.gz",
        "images.tar.gz",
        "unpacked",
    ]


def test_a_read_only_folder_is_unpacked_in_the_cache(tmp_path, monkeypatch):
    root, cache = tmp_path / "data", tmp_path / "cache"
    tar(root / "cifar-100-python.tar.gz", archive_builders.cifar100_python())
    (root / "cifar100").write_text("a file where the folder should be: nothing can be made in it")
    monkeypatch.setenv("FILMTRANSFER_CACHE", str(cache))
    before = left_behind(root)
    assert len(load_dataset("cifar100", root).train) == 6
    assert left_behind(root) == before
    (first,) = (cache / "datasets").iterdir()
    assert len(load_dataset("cifar100", root).train) == 6
    assert list((cache / "datasets").iterdir()) == [first]


def test_a_full_disk_is_one_error(tmp_path, monkeypatch):
    tar(tmp_path / "cifar100" / "cifar-100-python.tar.gz", archive_builders.cifar100_python())

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tarfile.TarFile, "extractall", full)
    with pytest.raises(InputError, match="No space left on device"):
        load_dataset("cifar100", tmp_path)
    assert left_behind(tmp_path / "cifar100") == ["cifar-100-python.tar.gz"]


def test_nested_archives_and_plain_files(tmp_path):
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w:gz") as packed:
        packed.addfile(tarfile.TarInfo("deep/empty"))
    outer = zipped(tmp_path / "outer.zip", {"box/inner.tgz": inner.getvalue()})
    (tmp_path / "notes.mat").write_bytes(b"beside")
    folder = archives.unpack([outer, tmp_path / "notes.mat"], tmp_path / "out")
    assert left_behind(folder) == ["box", "box/deep", "box/deep/empty", "notes.mat"]


def test_custom_datasets_are_listed(tmp_path):
    from filmtransfer.bench.datasets import custom_datasets

    for part in ("train", "test"):
        (tmp_path / "mine" / part / "cup").mkdir(parents=True)
    (tmp_path / "unfinished" / "train").mkdir(parents=True)
    (tmp_path / "drawings.npz").touch()
    (tmp_path / "svhn.npz").touch()
    assert custom_datasets(tmp_path) == ["drawings", "mine"]
