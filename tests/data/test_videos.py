"""Frames of video files written with PyAV: indices, times, orientation, and a clear error for each invalid file."""

from __future__ import annotations

import os
import sys

import av
import numpy as np
import pytest
from PIL import Image

from filmtransfer.bench.orbit.sample import write_video
from filmtransfer.data.videos import frame_times, read_frames
from filmtransfer.errors import InputError, MissingExtraError


def greys(count: int, size: tuple[int, int] = (64, 32)) -> list[Image.Image]:
    """Frame i has the grey level 10 + 10·i, and its top left corner is white."""
    images = []
    for i in range(count):
        pixels = np.full((size[1], size[0], 3), 10 + 10 * i, np.uint8)
        pixels[:16, :16] = 255
        images.append(Image.fromarray(pixels))
    return images


@pytest.fixture
def video(tmp_path):
    path = tmp_path / "grey.mp4"
    write_video(path, greys(20), rate=10)
    return path


def level(image: Image.Image) -> float:
    return float(np.asarray(image)[20:, 20:].mean())


def test_frames_are_listed_without_decoding_and_read_in_order(video):
    times = frame_times(video)
    assert [i for i, _ in times] == list(range(20))
    assert [t for _, t in times] == pytest.approx([i / 10 for i in range(20)])
    frames = read_frames(video)
    assert len(frames) == 20
    assert frames[0].size == (64, 32)
    assert [level(frame) for frame in frames] == pytest.approx([10 + 10 * i for i in range(20)], abs=6)


def test_only_the_requested_frames_are_read(video):
    assert [round(level(f) / 10) - 1 for f in read_frames(video, [15, 3, 7])] == [3, 7, 15]


@pytest.mark.parametrize(
    ("rate", "expected"), [(5, range(0, 20, 2)), (2.5, range(0, 20, 4)), (100, range(20))]
)
def test_frames_at_a_lower_rate(video, rate, expected):
    assert [i for i, _ in frame_times(video, rate)] == list(expected)


def test_a_rate_of_zero_is_an_error(video):
    with pytest.raises(InputError, match="frame rate cannot be 0"):
        frame_times(video, 0)


@pytest.mark.parametrize(
    ("rotation", "corner"), [(0, "top left"), (90, "bottom left"), (180, "bottom right"), (-90, "top right")]
)
def test_rotated_videos_are_read_upright(tmp_path, rotation, corner):
    path = tmp_path / "turned.mp4"
    write_video(path, greys(3), rotation=rotation)
    frame = read_frames(path, [0])[0]
    assert frame.size == ((64, 32) if rotation % 180 == 0 else (32, 64))
    pixels = np.asarray(frame).mean(2)
    rows = slice(0, 8) if "top" in corner else slice(-8, None)
    columns = slice(0, 8) if "left" in corner else slice(-8, None)
    assert pixels[rows, columns].mean() > 200
    assert pixels.mean() < 110  # and nowhere else


def test_invalid_files_raise_a_clear_error(tmp_path, video):
    content = video.read_bytes()
    bad = tmp_path / "bad.mp4"
    for data, message in (
        (b"", "the file is empty"),
        (b"not a video at all" * 20, "damaged, or not a video"),
        (content[: len(content) // 2], "damaged, or not a video"),
    ):
        bad.write_bytes(data)
        with pytest.raises(InputError, match=message):
            frame_times(bad)
    with pytest.raises(InputError, match="no such file"):
        frame_times(tmp_path / "absent.mp4")


def test_damaged_frames_are_reported_when_read(tmp_path, video):
    content = bytearray(video.read_bytes())
    content[60:400] = bytes(340)
    bad = tmp_path / "bad.mp4"
    bad.write_bytes(bytes(content))
    with pytest.raises(InputError, match="damaged"):
        read_frames(bad, range(20))


def test_missing_frames_are_an_error(video):
    with pytest.raises(InputError, match="2 of its frames are missing"):
        read_frames(video, [1, 30, 31])


def test_without_pyav_the_error_names_the_extra(video, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(MissingExtraError, match=r"\[video\]"):
        read_frames(video)


def test_a_pipe_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "x.mp4")
    with pytest.raises(InputError, match="not a regular file"):
        frame_times(tmp_path / "x.mp4")


@pytest.mark.parametrize(
    "text",
    [
        "ffconcat version 1.0\nfile {name}\n",
        "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n{name}\n#EXT-X-ENDLIST\n",
    ],
)
def test_playlists_open_no_other_file(video, text):
    playlist = video.with_name("playlist.mp4")
    playlist.write_text(text.format(name=video.name))
    with pytest.raises(InputError, match="damaged, or not a video"):
        frame_times(playlist)


def test_the_name_of_a_file_is_no_address(video, monkeypatch):
    monkeypatch.chdir(video.parent)
    video.rename("concat:a|b.mp4")
    assert len(frame_times("concat:a|b.mp4")) == 20


@pytest.mark.parametrize("suffix", [".mkv", ".avi", ".webm", ".mpg", ".mov", ".wmv", ".3gp"])
def test_containers_of_videos_are_read(tmp_path, suffix):
    codec = {".webm": "vp9", ".mpg": "mpeg1video", ".wmv": "wmv2", ".avi": "mpeg4"}.get(suffix, "libx264")
    file = tmp_path / f"x{suffix}"
    with av.open(str(file), "w") as container:
        stream = container.add_stream(codec, rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 32, "yuv420p"
        for image in greys(5):
            container.mux(stream.encode(av.VideoFrame.from_image(image)))
        container.mux(stream.encode())
    assert len(read_frames(file)) == 5
