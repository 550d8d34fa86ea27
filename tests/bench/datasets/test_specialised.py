"""The specialised datasets of VTAB, from tiny files in the publishers' own formats."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter

from filmtransfer.bench.datasets import DATASETS, GROUPS, remote_sensing
from filmtransfer.bench.datasets.camelyon import STEM
from filmtransfer.bench.datasets.fundus import preprocess_fundus
from filmtransfer.errors import InputError, MissingExtraError, UpdateFileError

ENTRIES = {name: DATASETS[name] for name in GROUPS["specialized"]}


# EuroSAT and RESISC45: a folder per class


def make_class_folders(home: Path, classes: list[str], each: int = 2) -> None:
    for name in classes:
        (home / name).mkdir(parents=True)
        for i in range(1, each + 1):
            Image.new("RGB", (16, 16)).save(home / name / f"{name}_{i}.jpg")


@pytest.mark.parametrize(
    ("name", "inside", "classes"),
    [("eurosat", "2750", remote_sensing.LAND_USE), ("resisc45", "NWPU-RESISC45", remote_sensing.SCENES)],
)
def test_a_folder_per_class(tmp_path: Path, name: str, inside: str, classes: list[str]):
    make_class_folders(tmp_path / inside, classes)
    (tmp_path / inside / "Thumbs.db").write_bytes(b"")
    raw = ENTRIES[name].read(tmp_path)
    assert raw.classes == classes == sorted(classes)
    assert raw.train.labels.tolist() == [label for label in range(len(classes)) for _ in range(2)]
    assert raw.train.keys[-1] == f"{classes[-1]}_{classes[-1]}_2.jpg"
    assert Path(raw.train.sources[3]).name == f"{classes[1]}_2.jpg"
    assert len(raw.test) == 0  # published in one piece
    assert any(list(tmp_path.glob(pattern)) for pattern in ENTRIES[name].markers)
    for file in (tmp_path / inside / classes[4]).iterdir():
        file.unlink()
    with pytest.raises(InputError, match=f"There are no images in .*{classes[4]}"):
        ENTRIES[name].read(tmp_path)


# Patch Camelyon


def make_camelyon(root: Path, packed: bool = False) -> dict[str, np.ndarray]:
    """HDF5 files as published: x (N, 96, 96, 3) in chunks, y (N, 1, 1, 1)."""
    rng = np.random.default_rng(0)
    images = {}
    for split, count in (("train", 6), ("valid", 3), ("test", 4)):
        images[split] = rng.integers(0, 256, (count, 96, 96, 3), dtype=np.uint8)
        marks = (np.arange(count, dtype=np.uint8) % 2).reshape(-1, 1, 1, 1)
        for name, array in (("x", images[split]), ("y", marks)):
            file = root / f"{STEM}_{split}_{name}.h5"
            with h5py.File(file, "w") as out:
                out.create_dataset(name, data=array, chunks=(1, *array.shape[1:]))
            if packed:
                file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
                file.unlink()
    return images


@pytest.mark.parametrize("packed", [False, True])
def test_camelyon(tmp_path: Path, packed: bool):
    images = make_camelyon(tmp_path, packed)
    raw = ENTRIES["patch_camelyon"].read(tmp_path)
    assert raw.val is not None
    assert raw.train.labels.tolist() == [0, 1, 0, 1, 0, 1]
    assert raw.train.labels.dtype == np.int64
    assert [raw.train.keys[5], raw.val.keys[0], raw.test.keys[3]] == ["train_5", "valid_0", "test_3"]
    np.testing.assert_array_equal(raw.train.sources[5], images["train"][5])
    np.testing.assert_array_equal(raw.val.sources[0], images["valid"][0])
    np.testing.assert_array_equal(raw.test.sources[-1], images["test"][3])


def test_camelyon_damaged_files(tmp_path: Path):
    make_camelyon(tmp_path)
    images, labels = (tmp_path / f"{STEM}_test_{name}.h5" for name in "xy")
    whole = images.read_bytes()
    for content in (b"", b"no HDF5 at all" * 100, whole[: len(whole) // 2]):
        images.write_bytes(content)
        with pytest.raises(UpdateFileError, match=r"test_x\.h5 is damaged"):
            ENTRIES["patch_camelyon"].read(tmp_path)
    images.write_bytes(labels.read_bytes())
    with pytest.raises(UpdateFileError, match=r"test_x\.h5 is damaged: it has no array x"):
        ENTRIES["patch_camelyon"].read(tmp_path)
    images.write_bytes(whole)
    for array, reason in (
        (np.zeros((3, 1, 1, 1)), "for 4 images"),
        (np.full((4, 1, 1, 1), 2), "a label is 2"),
    ):
        with h5py.File(labels, "w") as out:
            out["y"] = array
        with pytest.raises(UpdateFileError, match=rf"test_y\.h5 is damaged: .*{reason}"):
            ENTRIES["patch_camelyon"].read(tmp_path)
    with h5py.File(images, "w") as out:
        out["x"] = np.zeros((4, 96, 96))
    with pytest.raises(UpdateFileError, match=r"test_x\.h5 is damaged: x is float64"):
        ENTRIES["patch_camelyon"].read(tmp_path)


def test_camelyon_a_missing_split(tmp_path: Path):
    make_camelyon(tmp_path)
    (tmp_path / f"{STEM}_valid_y.h5").unlink()
    with pytest.raises(InputError, match=r"There is no camelyonpatch_level_2_split_valid_y\.h5"):
        ENTRIES["patch_camelyon"].read(tmp_path)


def test_camelyon_without_h5py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    make_camelyon(tmp_path)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[bench\]'"):
        ENTRIES["patch_camelyon"].read(tmp_path)


# Diabetic Retinopathy


def eye(radius: int, height: int, width: int) -> np.ndarray:
    """A textured disc on black, ``2 * radius`` pixels wide in the middle row."""
    y, x = np.mgrid[:height, :width]
    inside = (y + 0.5 - height / 2) ** 2 + (x + 0.5 - width / 2) ** 2 < radius**2 + 0.3
    rng = np.random.default_rng(0)
    patches = rng.integers(60, 200, (height // 20 + 1, width // 20 + 1, 3))
    texture = np.kron(patches, np.ones((20, 20, 1)))[:height, :width] + rng.integers(0, 9, (height, width, 1))
    return (texture * inside[..., None]).astype(np.uint8)


def through_jpeg(image: np.ndarray) -> np.ndarray:
    stored = io.BytesIO()
    Image.fromarray(image).save(stored, "JPEG", quality=72)
    return np.asarray(Image.open(stored))


def expected(photo: np.ndarray) -> np.ndarray:
    """The recipe for a photo whose eye has a radius of 300 already, with scipy and in full."""
    pixels = photo.astype(np.float64)
    around = np.rint(gaussian_filter(pixels, (10, 10, 0), mode="mirror", truncate=3.0))
    sharp = np.clip(4 * pixels - 4 * around + 128, 0, 255).astype(np.uint8)
    height, width = photo.shape[:2]
    y, x = np.mgrid[:height, :width]
    sharp[(y - height // 2) ** 2 + (x - width // 2) ** 2 > 270**2] = 128
    top, left = max(height // 2 - 270, 0), max(width // 2 - 270, 0)
    return through_jpeg(sharp[top : height // 2 + 270, left : width // 2 + 270])


@pytest.mark.parametrize(("height", "width"), [(640, 720), (600, 600), (480, 700)])
def test_preprocessing_equals_the_published_steps(height: int, width: int):
    photo = eye(300, height, width)
    ours, theirs = preprocess_fundus(photo).astype(int), expected(photo).astype(int)
    assert ours.shape == theirs.shape == (min(540, height), 540, 3)
    # the blur in float32 rounds a few pixels the other way, by 4 levels, and the JPEG spreads them
    assert np.abs(ours - theirs).mean() < 0.02
    assert np.abs(ours - theirs).max() <= 12


def test_a_photo_is_scaled_first():
    """At half the size each pixel is the mean of four."""
    photo = eye(600, 1280, 1440)
    half = photo.astype(np.float64).reshape(640, 2, 720, 2, 3).mean((1, 3))
    difference = np.abs(
        preprocess_fundus(photo).astype(int) - expected(np.rint(half).astype(np.uint8)).astype(int)
    )
    assert difference.mean() < 0.02


def test_photos_without_an_eye():
    assert preprocess_fundus(np.zeros((60, 80, 3), np.uint8)).shape == (540, 540, 3)
    speck = np.zeros((60, 80, 3), np.uint8)
    speck[30, 40:42] = 255  # scaled three hundred times, of which only the middle is made
    assert preprocess_fundus(speck).shape == (540, 540, 3)


def make_retinopathy(root: Path) -> None:
    for folder, names in (
        ("train", ["10_left", "10_right", "13_left"]),
        ("test", ["1_left", "1_right", "2_left"]),
    ):
        (root / folder).mkdir()
        for name in names:
            Image.fromarray(eye(20, 48, 64)).save(root / folder / f"{name}.jpeg")
    (root / "trainLabels.csv").write_text("image,level\n10_left,0\n10_right,4\n13_left,2\n")
    (root / "retinopathy_solution.csv").write_text(
        "image,level,Usage\n1_left,3,Private\n1_right,1,Public\n2_left,0,Private\n"
    )


def test_retinopathy_splits(tmp_path: Path):
    make_retinopathy(tmp_path)
    raw = ENTRIES["diabetic_retinopathy"].read(tmp_path)
    assert raw.val is not None
    assert raw.train.labels.tolist() == [0, 4, 2]
    assert (list(raw.val.keys), raw.val.labels.tolist()) == (["1_right"], [1])
    assert (list(raw.test.keys), raw.test.labels.tolist()) == (["1_left", "2_left"], [3, 0])
    image = raw.test.sources[1]
    assert image.dtype == np.uint8
    assert image.shape == (540, 540, 3)


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("trainLabels.csv", "a,b\n1,2\n", "lacks the columns image, level"),
        ("trainLabels.csv", "image,level\n", "lacks the columns"),
        ("trainLabels.csv", "image,level\n10_left,5\n", "a label is 5"),
        ("trainLabels.csv", "image,level\n10_left,bad\n", "no image or no level"),
        ("trainLabels.csv", "image,level\n10_left\n", "no image or no level"),
        ("retinopathy_solution.csv", "image,level\n1_left,0\n", "lacks the columns Usage"),
        ("retinopathy_solution.csv", "image,level,Usage\n1_left,0,Private\n", "lists no images"),
    ],
)
def test_retinopathy_damaged_tables(tmp_path: Path, file: str, text: str, reason: str):
    make_retinopathy(tmp_path)
    (tmp_path / file).write_text(text)
    with pytest.raises(UpdateFileError, match=f"{file} is damaged: .*{reason}"):
        ENTRIES["diabetic_retinopathy"].read(tmp_path)


def test_retinopathy_missing_and_damaged_photos(tmp_path: Path):
    make_retinopathy(tmp_path)
    photo = tmp_path / "train" / "10_right.jpeg"
    photo.write_bytes(photo.read_bytes()[:200])
    raw = ENTRIES["diabetic_retinopathy"].read(tmp_path)
    with pytest.raises(InputError, match="the image is damaged"):
        raw.train.sources[1]
    photo.unlink()
    with pytest.raises(InputError, match=r"1 of the 3 images .*10_right\.jpeg"):
        ENTRIES["diabetic_retinopathy"].read(tmp_path)
