"""ORBIT's tasks: support and query videos, and users with too few of them."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from filmtransfer.bench.orbit.dataset import read_user
from filmtransfer.bench.orbit.sample import OrbitSample
from filmtransfer.bench.orbit.tasks import OrbitProtocol, cut_clips, read_clips, read_video, sample_task
from filmtransfer.data.pixels import PixelSpec
from filmtransfer.errors import InputError, UsageError

SPEC = PixelSpec(16, (0.5,) * 3, (0.5,) * 3)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("orbit")
    return OrbitSample(users=1, objects=3, clean=7, clutter=2, frames=18, size=16).write(folder)


@pytest.fixture
def root(made, tmp_path):
    return shutil.copytree(made, tmp_path / "orbit")


def names(user, kind):
    return [{v.name for v in getattr(item, kind)} for item in user.objects]


def test_clutter_queries_use_all_clean_videos_as_support(made):
    user = read_user(made, "P001")
    task = sample_task(user, "clutter", 0, 0)
    assert task.classes == [item.name for item in user.objects]
    for c in range(3):
        assert {clip.source.name for clip in task.clips if clip.label == c} == names(user, "clean")[c]
        assert {video.name for label, video in task.queries if label == c} == names(user, "clutter")[c]


def test_clean_queries_are_not_in_the_support(made):
    user = read_user(made, "P001")
    task = sample_task(user, "clean", 0, 0)
    for c, item in enumerate(user.objects):
        support = {clip.source.name for clip in task.clips if clip.label == c}
        queries = {video.name for label, video in task.queries if label == c}
        assert support == {v.name for v in item.clean[:5]}
        assert queries == {v.name for v in item.clean[5:]}


def test_clips_are_eight_consecutive_frames_a_random_number_of_each_video(made):
    user = read_user(made, "P001")
    tasks = [sample_task(user, "clutter", number, 0) for number in range(6)]
    for task in tasks:
        for clip in task.clips:
            assert clip.frames in cut_clips(18, 8)
        pairs = [(clip.video, tuple(clip.frames)) for clip in task.clips]
        assert len(set(pairs)) == len(pairs)
    per_video = {sum(clip.video == v for clip in task.clips) for task in tasks for v in range(21)}
    assert per_video == {1, 2, 3}
    capped = sample_task(user, "clutter", 0, 0, OrbitProtocol(clips_per_video=1, videos_per_object=2))
    assert len(capped.clips) == 6


def test_clips_of_short_videos_end_with_their_last_frame():
    assert cut_clips(3, 8) == [[0, 1, 2, 2, 2, 2, 2, 2]]
    assert cut_clips(8, 8) == [list(range(8))]
    assert cut_clips(10, 4) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 9, 9]]


def test_a_task_follows_from_its_number_and_the_seed(made):
    user = read_user(made, "P001")

    def frames(number, seed):
        return [(clip.video, clip.frames) for clip in sample_task(user, "clutter", number, seed).clips]

    assert frames(0, 0) == frames(0, 0)
    assert frames(0, 0) != frames(1, 0)
    assert frames(0, 0) != frames(0, 1)


def test_frames_are_read_clip_by_clip(made):
    user = read_user(made, "P001")
    task = sample_task(user, "clutter", 0, 0)
    support = read_clips(task, SPEC)
    assert support.pixels.shape == (8 * len(task.clips), 3, 16, 16)
    assert support.labels.tolist() == [clip.label for clip in task.clips]
    last = task.clips[-1]
    alone = np.stack([s for s in last.source.read(last.frames, SPEC)[0] if s is not None])
    assert np.array_equal(support.pixels[-8:], alone)


def test_one_object_is_not_enough(root):
    user = read_user(root, "P001")
    for item in user.objects[1:]:
        shutil.rmtree(root / "test" / "P001" / item.name)
    with pytest.raises(InputError, match="P001 has 1 object with clean videos"):
        sample_task(read_user(root, "P001"), "clutter", 0, 0)


def test_an_object_with_one_clean_video_has_no_clean_query(root):
    user = read_user(root, "P001")
    for video in user.objects[0].clean[1:]:
        shutil.rmtree(video.path)
    task = sample_task(read_user(root, "P001"), "clean", 0, 0)
    assert 0 in {clip.label for clip in task.clips}
    assert {label for label, _ in task.queries} == {1, 2}


def test_a_user_without_query_videos(root):
    for item in read_user(root, "P001").objects:
        shutil.rmtree(root / "test" / "P001" / item.name / "clutter")
    user = read_user(root, "P001")
    with pytest.raises(InputError, match="no clutter query video"):
        sample_task(user, "clutter", 0, 0)
    assert sample_task(user, "clean", 0, 0).queries
    with pytest.raises(UsageError, match="cannot be 'dirty'"):
        sample_task(user, "dirty", 0, 0)


def test_a_clip_with_a_damaged_frame_is_skipped(root):
    user = read_user(root, "P001")
    task = sample_task(user, "clutter", 0, 0)
    damaged = task.clips[0]
    damaged.source.frames[damaged.frames[2]].write_bytes(b"torn")
    support = read_clips(task, SPEC)
    assert len(support.labels) == len(task.clips) - 1
    assert "not an image" in support.notes[0]


def test_an_object_with_only_damaged_frames(root):
    user = read_user(root, "P001")
    for video in user.objects[1].clean:
        for frame in video.frames:
            frame.write_bytes(b"torn")
    with pytest.raises(InputError, match=f"no clip of {user.objects[1].name} can be read"):
        read_clips(sample_task(user, "clutter", 0, 0), SPEC)


def test_frames_without_the_object_can_be_excluded_from_queries(root):
    video = read_user(root, "P001").objects[0].clutter[0]
    video.frames[4].write_bytes(b"torn")
    video.absent[:3] = [True] * 3
    pixels, notes = read_video(video, SPEC)
    assert len(pixels) == 17
    assert "not an image" in notes[0]
    assert len(read_video(video, SPEC, present_only=True)[0]) == 14
