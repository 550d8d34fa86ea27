"""ORBIT's published layout and video files; unusable ones are named."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from filmtransfer.bench.orbit.dataset import read_user, user_names
from filmtransfer.bench.orbit.sample import OrbitSample
from filmtransfer.data.pixels import PixelSpec
from filmtransfer.errors import InputError, UsageError

SPEC = PixelSpec(16, (0.5,) * 3, (0.5,) * 3)


@pytest.fixture
def root(tmp_path):
    return OrbitSample(users=2, objects=2, clean=2, clutter=1, frames=9, size=24).write(tmp_path / "orbit")


def test_the_published_layout(root):
    assert user_names(root) == ["P001", "P002"]
    user = read_user(root, "P001")
    assert [len(thing.clean) for thing in user.objects] == [2, 2]
    assert [len(thing.clutter) for thing in user.objects] == [1, 1]
    assert user.notes == []
    video = user.objects[0].clean[0]
    assert len(video.frames) == 9
    squares, skipped = video.read([0, 8, 8], SPEC)
    assert [tuple(s.shape) for s in squares] == [(3, 16, 16)] * 3
    assert skipped == []
    assert bool((squares[1] == squares[2]).all())
    assert not bool((squares[0] == squares[1]).all())


def test_video_files_and_frames_can_be_mixed(root, tmp_path):
    plain = OrbitSample(users=1, objects=2, clean=2, clutter=1, frames=9, size=24).write(
        tmp_path / "plain", as_videos=True
    )
    framed = read_user(root, "P001")
    filmed = read_user(plain, "P001")
    assert [t.name for t in filmed.objects] == [t.name for t in framed.objects]
    shutil.copytree(
        framed.objects[0].clean[0].path, plain / "P001" / framed.objects[0].name / "clean" / "extra"
    )
    both = read_user(plain, "P001").objects[0].clean
    assert [len(v.frames) for v in both] == [9, 9, 9]
    a, b = (user.objects[0].clean[0].read([4], SPEC)[0][0] for user in (framed, filmed))
    assert np.abs(a.astype(int) - b).mean() < 12  # the same picture, but for two codecs
    assert len(read_user(plain, "P001", rate=4).objects[0].clean[0].frames) == 5  # recorded at 8


def test_annotations_are_optional(root):
    video = read_user(root, "P001").objects[0].clutter[0]
    assert video.absent == [False] * 9
    file = root / "annotations" / "test" / f"{video.name}.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({video.frames[2].name: {"object_not_present_issue": True}}))
    assert [i for i, a in enumerate(read_user(root, "P001").objects[0].clutter[0].absent) if a] == [2]
    file.write_text("[1, 2")
    with pytest.raises(InputError, match="cannot be read"):
        _ = read_user(root, "P001").objects[0].clutter[0].absent


def test_unusable_videos_and_objects_are_skipped_with_a_note(root):
    user = root / "test" / "P001"
    names = sorted(p.name for p in user.iterdir())
    empty = user / names[0] / "clean" / "nothing"
    empty.mkdir()
    (user / names[0] / "clean" / "torn.mp4").write_bytes(b"torn")
    (user / names[0] / "clean" / "loose.jpg").write_bytes(b"x")
    shutil.rmtree(user / names[0] / "clutter")
    shutil.rmtree(user / names[1] / "clean")
    (user / "diary").mkdir()
    read = read_user(root, "P001")
    assert [item.name for item in read.objects] == [names[0]]
    notes = "\n".join(read.notes)
    for text in (
        "nothing has no frames",
        "torn.mp4: the file is damaged",
        "belong to no video",
        "no clutter video",
    ):
        assert text in notes
    assert "no clean video to learn from" in notes
    assert "diary has neither" in notes


def test_damaged_frames_are_named_and_the_others_read(root):
    video = read_user(root, "P001").objects[0].clean[0]
    video.frames[3].write_bytes(b"not a picture")
    squares, skipped = video.read(range(9), SPEC)
    assert [i for i, s in enumerate(squares) if s is None] == [3]
    assert skipped[0].name.endswith(video.frames[3].name)


def test_unknown_layouts_and_parts(root, tmp_path):
    with pytest.raises(InputError, match="no users of ORBIT") as error:
        user_names(root / "test" / "P001")
    assert "USER/OBJECT/clean" in error.value.hint
    with pytest.raises(InputError, match="There is no folder"):
        user_names(tmp_path / "nowhere")
    with pytest.raises(InputError, match="has no part validation"):
        user_names(root, "validation")
    with pytest.raises(UsageError, match="The part of ORBIT cannot be 'holiday'"):
        user_names(root, "holiday")
    with pytest.raises(InputError, match="no user P009"):
        read_user(root, "P009")
