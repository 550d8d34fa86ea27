"""The runs of an ORBIT experiment, and what identifies them."""

from __future__ import annotations

import shutil

import pytest

from filmtransfer.bench.orbit.runs import OrbitExperiment
from filmtransfer.bench.orbit.sample import OrbitSample
from filmtransfer.errors import InputError, UpdateFileError, UsageError

LITE = "efficientnet_lite0"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("orbit")
    return OrbitSample(users=2, objects=2, clean=2, clutter=1, frames=2, size=16).write(folder)


def test_a_run_for_each_task_user_kind_and_method(made):
    runs, notes = OrbitExperiment(["fit-lda", "protonets"], backbone=LITE, tasks=3).runs(made)
    assert len(runs) == len({run.key for run in runs}) == 3 * 2 * 2 * 2
    assert notes == []
    assert str(runs[0]) == "P001 task 0 clean FiT-LDA"
    assert [run.settings["task"] for run in runs] == sorted(run.settings["task"] for run in runs)
    again, _ = OrbitExperiment(["fit-lda"], backbone=LITE, tasks=1, users=1).runs(made)
    assert {run.key for run in again} <= {run.key for run in runs}
    assert {run.settings["preset"] for run in runs} == {"orbit_b0"}
    bit, _ = OrbitExperiment(["fit-lda", "bit"], backbone="bit_m_r50x1", tasks=1, users=1).runs(made)
    assert {run.settings["preset"] for run in bit} == {"orbit_bit", "bit"}


def test_other_videos_under_the_same_names_are_other_runs(made, tmp_path):
    first, _ = OrbitExperiment(["protonets"], backbone=LITE, tasks=1).runs(made)
    root = shutil.copytree(made, tmp_path / "orbit")
    same, _ = OrbitExperiment(["protonets"], backbone=LITE, tasks=1).runs(root)
    assert [r.key for r in same] == [r.key for r in first]
    next(root.glob("test/P001/*/clean/*/*.jpg")).unlink()
    other, _ = OrbitExperiment(["protonets"], backbone=LITE, tasks=1).runs(root)
    changed = [a.settings["user"] for a, b in zip(first, other, strict=True) if a.key != b.key]
    assert changed == ["P001", "P001"]


def test_a_cnaps_file_is_identified_by_its_content(made, tmp_path):
    keys = []
    for name, content in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        (tmp_path / name).write_bytes(content)
        runs, _ = OrbitExperiment(["cnaps"], backbone=LITE, tasks=1, cnaps=tmp_path / name).runs(made)
        keys.append(runs[0].key)
    assert keys[0] == keys[1] != keys[2]
    with pytest.raises(UpdateFileError, match="cannot be read"):
        OrbitExperiment(["cnaps"], backbone=LITE, cnaps=tmp_path / "absent").runs(made)


def test_users_with_too_few_videos_are_skipped_with_a_note(made, tmp_path):
    root = shutil.copytree(made, tmp_path / "orbit")
    user = root / "test" / "P001"
    shutil.rmtree(next(user.iterdir()))
    for folder in (root / "test" / "P002").iterdir():
        shutil.rmtree(folder / "clutter")
    runs, notes = OrbitExperiment(["protonets"], backbone=LITE, tasks=1).runs(root)
    assert [(run.settings["user"], run.settings["videos"]) for run in runs] == [("P002", "clean")]
    assert "P001 has fewer than two objects with clean videos: skipped." in notes
    assert "P002 has no clutter query video." in notes
    shutil.rmtree(root / "test" / "P002")
    with pytest.raises(InputError, match="has query videos"):
        OrbitExperiment(["protonets"], backbone=LITE).runs(root)


def test_invalid_experiments(made):
    with pytest.raises(UsageError, match="Simple CNAPs has not been trained"):
        OrbitExperiment(["cnaps"], backbone=LITE).runs(made)
    with pytest.raises(UsageError, match="cannot be 'magic'"):
        OrbitExperiment(["magic"], backbone=LITE).runs(made)
    with pytest.raises(UsageError, match="tasks cannot be 0"):
        OrbitExperiment(["protonets"], backbone=LITE, tasks=0).runs(made)
