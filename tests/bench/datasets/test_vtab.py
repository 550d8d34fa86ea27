"""VTAB's 1000 training images: the order against what TensorFlow Datasets shows, and the slices."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from filmtransfer.bench.datasets import DATASETS, VTAB, catalogue, load_dataset, load_vtab
from filmtransfer.bench.datasets.dataset import ImageSplit, RawDataset
from filmtransfer.bench.datasets.lazy_sequence import LazySequence
from filmtransfer.bench.datasets.tfds_order import tfds_order
from filmtransfer.bench.datasets.vtab_splits import VTAB_SLICES, official_split
from filmtransfer.errors import InputError, UsageError
from tests.bench.datasets import archive_builders

# The ids of the first 16 images of tfds.load("cifar10", split="train"), as tutorials print them (with the
# first, label 7, in ray.data.from_tf's documentation).
CIFAR10 = [
    16399,
    1680,
    47917,
    17307,
    27051,
    48736,
    26263,
    1456,
    19135,
    31598,
    12970,
    4223,
    27152,
    49635,
    4093,
    17537,
]


def numbered(count: int, prefix: str) -> ImageSplit:
    return ImageSplit(
        LazySequence(count, lambda i: f"{prefix}{i}"),
        np.arange(count) % 7,
        [f"{prefix}{i}" for i in range(count)],
    )


def slow_order(keys: list[str], split: str) -> list[str]:
    return sorted(keys, key=lambda key: int(hashlib.md5((split + key).encode()).hexdigest(), 16))


def test_the_order_is_that_of_tensorflow_datasets():
    assert tfds_order([str(i) for i in range(50_000)], "train")[:16].tolist() == CIFAR10


def test_slices_within_the_training_split():
    raw = RawDataset(list("abcdefg"), numbered(3680, "a"), numbered(10, "t"))
    train, test = official_split(raw, VTAB_SLICES["oxford_pets"])
    expected = slow_order(list(raw.train.keys), "train")
    assert list(train.sources) == expected[:800] + expected[2944:3144]
    assert list(train.keys) == list(train.sources)
    assert train.labels.tolist() == [int(key[1:]) % 7 for key in train.keys]
    assert test is raw.test


def test_slices_of_a_validation_split():
    raw = RawDataset(list("abcdefg"), numbered(1880, "a"), numbered(10, "t"), numbered(1880, "v"))
    train, _ = official_split(raw, VTAB_SLICES["dtd"])
    first, second = slow_order(list(raw.train.keys), "train"), slow_order(list(raw.val.keys), "validation")
    assert list(train.keys) == first[:800] + second[:200]


def test_slices_of_a_test_split_are_not_tested_on():
    raw = RawDataset(list("abcdefg"), numbered(24_300, "a"), numbered(24_300, "t"))
    train, test = official_split(raw, VTAB_SLICES["smallnorb_azimuth"])
    second = slow_order(list(raw.test.keys), "test")
    assert list(train.keys)[800:] == second[:200]
    assert list(test.keys) == second[12_150:]


def test_a_dataset_without_splits_is_divided_in_three():
    raw = RawDataset(list("abcdefg"), numbered(27_000, "a"), ImageSplit((), np.zeros(0, np.int64)))
    train, test = official_split(raw, VTAB_SLICES["eurosat"])
    order = slow_order(list(raw.train.keys), "train")
    assert list(train.keys) == order[:800] + order[16_200:16_400]
    assert list(test.keys) == order[21_600:]


def test_an_incomplete_dataset_or_one_without_keys_is_not_official():
    whole = RawDataset(list("abcdefg"), numbered(3680, "a"), numbered(10, "t"))
    assert official_split(replace(whole, train=numbered(3679, "a")), VTAB_SLICES["oxford_pets"]) is None
    assert (
        official_split(replace(whole, train=replace(whole.train, keys=())), VTAB_SLICES["oxford_pets"])
        is None
    )
    textures = RawDataset(list("abcdefg"), numbered(1880, "a"), whole.test, numbered(1880, "v"))
    assert official_split(textures, VTAB_SLICES["dtd"]) is not None
    assert official_split(replace(textures, val=None), VTAB_SLICES["dtd"]) is None
    assert official_split(replace(textures, val=numbered(1879, "v")), VTAB_SLICES["dtd"]) is None


def test_every_dataset_but_caltech_has_slices():
    assert set(VTAB_SLICES) == set(VTAB) - {"caltech101"}
    for name, rule in VTAB_SLICES.items():
        assert rule.images >= 800, name
        assert rule.val_from != "train" or 800 <= rule.val <= rule.images - 200, name
        assert rule.val_from != "train" or rule.others == rule.images, name
        assert rule.test is None or rule.test >= rule.val + 200, name


def test_sizes_add_up_to_those_of_vtabs_own_table():
    """Zhai et al. (2019), the table of tasks: images to train and validate on."""
    published = {
        "cifar100": 50_000,
        "dtd": 3_760,
        "flowers102": 2_040,
        "oxford_pets": 3_680,
        "sun397": 87_003,
    }
    published |= {"svhn": 73_257, "eurosat": 21_600, "resisc45": 25_200, "patch_camelyon": 294_912}
    published |= {"diabetic_retinopathy": 46_032, "clevr_count": 70_000, "clevr_distance": 70_000}
    published |= {"dsprites_location": 663_552, "dsprites_orientation": 663_552, "dmlab": 88_178}
    published |= {"smallnorb_azimuth": 36_450, "smallnorb_elevation": 36_450, "kitti_distance": 6_770}
    for name, rule in VTAB_SLICES.items():
        within = rule.test if rule.test is not None else rule.others
        both = within if rule.val_from == "train" else rule.images + within
        assert both == published[name], name


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Pets with as many images as are published, without their pixels."""
    raw = RawDataset(list("abcdefg"), numbered(3680, "a"), numbered(10, "t"))
    file = replace(DATASETS["oxford_pets"].files[0], name="pets.bin", bytes=0)
    entry = replace(DATASETS["oxford_pets"], files=(file,), read=lambda _: raw)
    monkeypatch.setitem(catalogue.DATASETS, "oxford_pets", entry)
    (tmp_path / "pets.bin").write_bytes(b"")
    return tmp_path


def test_official_random_and_released(published):
    official = load_vtab("oxford_pets", published)
    order = slow_order([f"a{i}" for i in range(3680)], "train")
    assert sorted(official.train.keys) == sorted(order[:800] + order[2944:3144])
    assert "computed from the order" in official.notes[-1]
    released = load_vtab("oxford_pets", published, split="released")
    assert list(released.train.keys) == order[:1000]
    assert "first 1000" in released.notes[-1]
    first, same, other = (load_vtab("oxford_pets", published, split="random", seed=s) for s in (0, 0, 1))
    assert len(first.train) == len(set(first.train.keys)) == 1000
    assert first.train.keys == same.train.keys != other.train.keys
    assert "seed 1" in other.notes[-1]
    with pytest.raises(UsageError, match="official, random, released"):
        load_vtab("oxford_pets", published, split="best")  # type: ignore[arg-type]


def test_without_the_official_images_there_is_a_note(tmp_path):
    archive_builders.pets(tmp_path)
    got = load_vtab("oxford_pets", tmp_path)
    assert len(got.train) == 74
    assert "All 74 training images" in got.notes[-2]
    assert "cannot be determined" in got.notes[-1]
    images, labels = np.zeros((1200, 4, 4), np.uint8), np.arange(1200) % 3
    np.savez(tmp_path / "mine.npz", train_x=images, train_y=labels, test_x=images[:5], test_y=labels[:5])
    drawn = load_vtab("mine", tmp_path)
    assert (len(drawn.train), len(drawn.test)) == (1000, 5)
    assert "drawn with seed 0" in drawn.notes[-2]
    assert "cannot be determined" in drawn.notes[-1]
    assert load_vtab("mine", tmp_path, split="released").train.labels.tolist() == labels[:1000].tolist()


def test_a_dataset_without_splits_still_has_test_images(tmp_path, monkeypatch):
    def serve(count: int) -> None:
        raw = RawDataset(list("abcdefg"), numbered(count, "a"), ImageSplit((), np.zeros(0, np.int64)))
        file = replace(DATASETS["eurosat"].files[0], name="sat.bin", bytes=0)
        entry = replace(DATASETS["eurosat"], files=(file,), read=lambda _: raw)
        monkeypatch.setitem(catalogue.DATASETS, "eurosat", entry)

    (tmp_path / "sat.bin").write_bytes(b"")
    serve(27_000)
    whole = load_dataset("eurosat", tmp_path)
    order = slow_order([f"a{i}" for i in range(27_000)], "train")
    assert list(whole.train.keys) == order[:16_200]
    assert list(whole.test.keys) == order[21_600:]
    serve(50)
    for few in (load_dataset("eurosat", tmp_path), load_vtab("eurosat", tmp_path)):
        assert (len(few.train), len(few.test)) == (40, 10)
        assert not set(few.train.keys) & set(few.test.keys)
        assert any("a fifth was drawn" in note for note in few.notes)
    with pytest.raises(InputError, match="only 50 images"):
        load_vtab("eurosat", tmp_path, split="released")
