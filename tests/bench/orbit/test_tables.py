"""ORBIT's runs and table: what makes a run, and the published numbers beside ours only where that is fair."""

from __future__ import annotations

import shutil

import pytest

from filmtransfer.bench.orbit.sample import make_sample
from filmtransfer.bench.orbit.tables import (
    METHODS,
    PER_USER,
    orbit_runs,
    orbit_tables,
    published_orbit_number,
)
from filmtransfer.bench.published import published
from filmtransfer.bench.result_table import to_markdown
from filmtransfer.errors import InputError, UpdateFileError, UsageError

LITE = "efficientnet_lite0"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("orbit")
    return make_sample(folder, users=2, objects=2, clean=2, clutter=1, frames=2, size=16)


def test_a_run_for_each_task_user_kind_and_method(made):
    runs, notes = orbit_runs(made, ["fit-lda", "protonets"], backbone=LITE, tasks=3)
    assert len(runs) == len({run.key for run in runs}) == 3 * 2 * 2 * 2
    assert notes == []
    assert str(runs[0]) == "P001 task 0 clean FiT-LDA"
    assert [run.settings["task"] for run in runs] == sorted(run.settings["task"] for run in runs)
    again, _ = orbit_runs(made, ["fit-lda"], backbone=LITE, tasks=1, users=1)
    assert {run.key for run in again} <= {run.key for run in runs}
    assert {run.settings["preset"] for run in runs} == {"orbit_b0"}
    bit, _ = orbit_runs(made, ["fit-lda", "bit"], backbone="bit_m_r50x1", tasks=1, users=1)
    assert {run.settings["preset"] for run in bit} == {"orbit_bit", "bit"}


def test_other_videos_under_the_same_names_are_other_runs(made, tmp_path):
    first, _ = orbit_runs(made, ["protonets"], backbone=LITE, tasks=1)
    root = shutil.copytree(made, tmp_path / "orbit")
    same, _ = orbit_runs(root, ["protonets"], backbone=LITE, tasks=1)
    assert [r.key for r in same] == [r.key for r in first]
    next(root.glob("test/P001/*/clean/*/*.jpg")).unlink()
    other, _ = orbit_runs(root, ["protonets"], backbone=LITE, tasks=1)
    changed = [a.settings["user"] for a, b in zip(first, other, strict=True) if a.key != b.key]
    assert changed == ["P001", "P001"]


def test_a_cnaps_file_is_known_by_its_content(made, tmp_path):
    keys = []
    for name, content in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        (tmp_path / name).write_bytes(content)
        runs, _ = orbit_runs(made, ["cnaps"], backbone=LITE, tasks=1, cnaps=tmp_path / name)
        keys.append(runs[0].key)
    assert keys[0] == keys[1] != keys[2]
    with pytest.raises(UpdateFileError, match="cannot be read"):
        orbit_runs(made, ["cnaps"], backbone=LITE, cnaps=tmp_path / "absent")


def test_users_with_too_little_are_left_out_and_named(made, tmp_path):
    root = shutil.copytree(made, tmp_path / "orbit")
    user = root / "test" / "P001"
    shutil.rmtree(next(user.iterdir()))
    for thing in (root / "test" / "P002").iterdir():
        shutil.rmtree(thing / "clutter")
    runs, notes = orbit_runs(root, ["protonets"], backbone=LITE, tasks=1)
    assert [(run.settings["user"], run.settings["videos"]) for run in runs] == [("P002", "clean")]
    assert "P001 has fewer than two objects that can be learned: left out." in notes
    assert "P002 has no clutter video to be asked for." in notes
    shutil.rmtree(root / "test" / "P002")
    with pytest.raises(InputError, match="can be asked for anything"):
        orbit_runs(root, ["protonets"], backbone=LITE)


def test_mistakes(made):
    with pytest.raises(UsageError, match="cannot be 'magic'"):
        orbit_runs(made, ["magic"], backbone=LITE)
    with pytest.raises(UsageError, match="tasks cannot be 0"):
        orbit_runs(made, ["protonets"], backbone=LITE, tasks=0)


def row(method, user, kind, frame, right, numbers=30_000, classes=9):
    return {
        "settings": {"method": method, "user": user, "videos": kind, "task": 0, "backbone": LITE},
        "result": {
            "videos": [["o", "v", 8, frame, right]], "classes": classes, "shared": 3_371_008, "numbers": numbers,
            "notes": [f"{user} note"],
        },
    }  # fmt: skip


def test_the_table_of_some_users_puts_the_published_in_rows_of_their_own():
    rows = [row("FiT-LDA", u, k, f, True) for u in "ab" for k, f in (("clean", 0.8), ("clutter", 0.6))]
    rows += [row("Frozen-LDA", "a", "clean", 0.5, False)]
    table, users = orbit_tables(rows)
    assert [head[0] for head in table.row_heads] == [
        "Frozen-LDA",
        "FiT-LDA",
        "FiT-LDA, published on ORBIT with EfficientNet-B0",
    ]
    text = to_markdown(table)
    assert "80.0 ± 0.0 | 100.0 ± 0.0 | 60.0 ± 0.0 | 100.0 ± 0.0 | 3.371 | 0.030" in text
    assert "81.8 ± 1.8 | 90.6 ± 1.9 | 65.7 ± 1.8 | 70.7 ± 2.3 | 4.01 | 0.03" in text
    assert "cannot be compared" in text
    assert "✗" not in text
    assert "a: a note" in text
    assert "50.0 | 0.0 | – | –" in text
    assert "| clean | frame | mean of users | 50.0 | 80.0 ± 0.0 |" in to_markdown(users)


def test_orbits_own_users_stand_beside_the_published():
    sizes = [9] * 12 + [10] * 5
    rows = [row("FiT-LDA", f"P{i}", "clean", 0.818, True, classes=c) for i, c in enumerate(sizes)]
    table, _ = orbit_tables(rows)
    text = to_markdown(table)
    assert sum(sizes) == 158
    assert "81.8 ± 0.0 (81.8 ± 1.8, +0.0 ✓)" in text
    assert "100.0 ± 0.0 (90.6 ± 1.9, +9.4 ✗)" in text
    assert "The backbones differ" in text


def test_every_published_number_of_the_table_is_found():
    methods = {title for title, _ in METHODS.values()}
    assert methods == PER_USER.keys()
    for p in published():
        if p.table == "orbit_results":
            name = {"EfficientNet-B0": "efficientnet_b0", "BiT-M-R50x1": "bit_m_r50x1"}.get(p.backbone, LITE)
            assert p.method in methods
            assert published_orbit_number(name, p.method, p.metric, **p.settings) == p
    assert published_orbit_number(LITE, "FiT-ProtoNets", "frame_accuracy", videos="clean") is None


def test_the_papers_averages_follow_from_its_formulas():
    """The mean over ORBIT's users: 158 objects of 17 users, d = 1280 and |ψ| = 20544."""
    c, d = 158 / 17, 1280
    for method, own in {
        "FineTuner": (d + 1) * c,
        "Simple CNAPs": d * (d + 3) / 2 * c,
        "ProtoNets": d * c,
        "FiT-LDA": (d + 1) * c + 20544,
    }.items():
        assert f"{own / 1e6:.2f}" == published_orbit_number("efficientnet_b0", method, "parameters_m").printed
