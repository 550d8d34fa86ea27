"""The catalogue against the published figures, and the inventory of a data folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from filmtransfer.bench.datasets import DATASETS, VTAB, inventory, load_dataset
from filmtransfer.bench.datasets.flowers import FLOWERS
from filmtransfer.bench.datasets.location import find_entry
from filmtransfer.errors import InputError
from tests.bench.datasets import archive_builders

# Column C of the paper's VTAB table, in its order.
PUBLISHED = {
    "caltech101": 102,
    "cifar100": 100,
    "flowers102": 102,
    "oxford_pets": 37,
    "sun397": 397,
    "svhn": 10,
    "dtd": 47,
    "eurosat": 10,
    "resisc45": 45,
    "patch_camelyon": 2,
    "diabetic_retinopathy": 5,
    "clevr_count": 8,
    "clevr_distance": 6,
    "dsprites_location": 16,
    "dsprites_orientation": 16,
    "smallnorb_azimuth": 18,
    "smallnorb_elevation": 9,
    "dmlab": 6,
    "kitti_distance": 4,
}


def test_class_counts_are_the_published_ones():
    assert {name: DATASETS[name].classes for name in VTAB} == PUBLISHED
    assert list(VTAB) == list(PUBLISHED)
    assert DATASETS["cifar10"].classes == 10
    assert set(DATASETS) == {*PUBLISHED, "cifar10"}
    assert len(FLOWERS) == len(set(FLOWERS)) == 102


def test_titles_are_those_of_the_paper():
    assert [DATASETS[name].title for name in VTAB] == [
        "Caltech101", "CIFAR100", "Flowers102", "Pets", "Sun397", "SVHN", "DTD",
        "EuroSAT", "Resics45", "Camelyon", "Retinopathy",
        "Clevr-count", "Clevr-dist", "dSprites-loc", "dSprites-ori", "sNORB-azi", "sNORB-elev", "DMLab", "KITTI-dist",
    ]  # fmt: skip


@pytest.mark.parametrize("name", VTAB)
def test_an_empty_folder_is_one_clear_error(name, tmp_path):
    with pytest.raises(InputError, match=r"There is no .* in ") as caught:
        DATASETS[name].read(tmp_path)
    assert "\n" not in str(caught.value)
    assert caught.value.hint


def test_groups_are_those_of_vtab():
    groups = [DATASETS[name].group for name in VTAB]
    assert groups == ["natural"] * 7 + ["specialized"] * 4 + ["structured"] * 8
    assert DATASETS["cifar10"].group == ""


def test_names_and_aliases_are_unique():
    names = [name for entry in DATASETS.values() for name in (entry.name, *entry.aliases)]
    assert len(names) == len(set(names))
    assert all(find_entry(name) is not None for name in names)


def test_every_row_is_complete():
    for entry in DATASETS.values():
        assert entry.title, entry.name
        assert entry.licence, entry.name
        assert entry.home.startswith("http"), entry.name
        assert entry.files, entry.name
        for file in (*entry.files, *entry.instead):
            assert len(file.sha256) in (0, 64), file.name
            assert len(file.md5) in (0, 32), file.name
            assert "/" not in file.name, file.name


def test_the_inventory_lists_present_and_missing_datasets(tmp_path):
    archive_builders.pets(tmp_path)
    np.savez(tmp_path / "svhn.npz")  # the inventory does not open it
    (tmp_path / "dtd" / "train" / "banded").mkdir(parents=True)
    (tmp_path / "dtd" / "test").mkdir()
    (tmp_path / "CLEVR_v1.0.zip").write_bytes(b"not opened")
    (tmp_path / "flowers102").mkdir()
    (tmp_path / "flowers102" / "setid.mat").write_bytes(b"one of three files")
    rows = {row.name: row for row in inventory(tmp_path)}
    assert list(rows) == list(DATASETS)
    present = {name for name, row in rows.items() if row.present}
    assert present == {"oxford_pets", "svhn", "dtd", "clevr_count", "clevr_distance"}
    assert rows["svhn"].source == f"npz: {tmp_path / 'svhn.npz'}"
    assert rows["oxford_pets"].source.startswith("published: ")
    assert not (tmp_path / "oxford_pets" / "unpacked").exists()
    reason = rows["flowers102"].why_missing
    assert reason.startswith("Download 102flowers.tgz, imagelabels.mat from https://")
    assert reason.endswith(f"and put them in {tmp_path / 'flowers102'}.")
    assert rows["cifar10"].classes == 10
    assert all(bool(row.source) == row.present != bool(row.why_missing) for row in rows.values())
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="no data folder"):
        inventory(tmp_path / "file")


def test_the_inventory_of_a_folder_that_does_not_exist_says_how_to_get_everything(tmp_path):
    rows = inventory(tmp_path / "absent")
    assert [row.name for row in rows] == list(DATASETS)
    assert not any(row.present for row in rows)
    assert all(row.why_missing.endswith(f"in {tmp_path / 'absent' / row.name}.") for row in rows[:3])
    assert not (tmp_path / "absent").exists()


def test_tasks_on_the_same_files_share_them(tmp_path):
    rows = {row.name: row.why_missing for row in inventory(tmp_path)}
    assert rows["clevr_count"] == rows["clevr_distance"]
    assert str(tmp_path / "clevr_count") in rows["clevr_distance"]
    assert rows["cifar10"] != rows["cifar100"]


def test_an_interrupted_unpacking_is_not_a_dataset(tmp_path):
    (tmp_path / "sun397" / ".unpacked.x1" / "SUN397").mkdir(parents=True)
    assert "sun397" not in {row.name for row in inventory(tmp_path) if row.present}
    (tmp_path / "sun397" / "SUN397").mkdir()
    assert "sun397" in {row.name for row in inventory(tmp_path) if row.present}


def test_a_dataset_unpacked_by_hand_is_located_and_a_partial_one_is_noted(tmp_path):
    home = tmp_path / "cifar100" / "some" / "cifar-100-python"
    home.mkdir(parents=True)
    for name, content in archive_builders.cifar100_python().items():
        (home / Path(name).name).write_bytes(content)
    assert load_dataset("cifar100", tmp_path).source == str(tmp_path / "cifar100")
    packed = archive_builders.tar(tmp_path / "cifar-100-python.tar.gz", archive_builders.cifar100_python())
    note, fewer = load_dataset("cifar100", tmp_path).notes
    assert fewer.endswith("training images; the published set has 50,000.")
    assert note == f"{packed} has {packed.stat().st_size:,} bytes; the published file has 169,001,437."
