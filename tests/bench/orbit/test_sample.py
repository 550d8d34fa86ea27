"""The sample: ORBIT's layout, reproducible, also from the command."""

from __future__ import annotations

import sys

from filmtransfer.bench.orbit.dataset import read_user, user_names
from filmtransfer.bench.orbit.sample import OrbitSample, main

TINY = {"users": 1, "objects": 2, "clean": 1, "clutter": 1, "frames": 2, "size": 16}


def test_the_sample_is_reproducible(tmp_path):
    a, b = (OrbitSample(**TINY).write(tmp_path / name) for name in "ab")
    frames = sorted(p.relative_to(a) for p in a.rglob("*.jpg"))
    assert len(frames) == 8
    assert all((a / p).read_bytes() == (b / p).read_bytes() for p in frames)
    assert not any((a / p).read_bytes() == (a / frames[0]).read_bytes() for p in frames[1:])


def test_the_command(tmp_path, capsys, monkeypatch):
    assert main([]) == 2
    assert main([str(tmp_path), "--film"]) == 2
    (tmp_path / "file").write_text("")
    assert main([str(tmp_path / "file")]) == 3
    monkeypatch.setitem(sys.modules, "av", None)
    assert main([str(tmp_path / "v"), "--videos"]) == 3
    err = capsys.readouterr().err
    assert "usage:" in err
    assert "[video]" in err


def test_users_have_objects_of_the_same_colour(tmp_path):
    OrbitSample(**TINY | {"users": 2, "objects": 3}).write(tmp_path)
    assert user_names(tmp_path) == ["P001", "P002"]
    names = [thing.name for thing in read_user(tmp_path, "P001").objects]
    assert len({name.split()[0] for name in names}) == 2  # colours
    assert len({name.split()[1] for name in names}) == 3  # shapes
