"""Frames of video files written with PyAV: indices, times, orientation, and a clear error for each invalid file."""

from __future__ import annotations

import os
import sys
import weakref
from contextlib import suppress

import av
import numpy as np
import pytest
from PIL import Image

from filmtransfer.bench.orbit.sample import write_video
from filmtransfer.data import videos
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
    frames = list(read_frames(video))
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
    frame = next(read_frames(path, [0]))
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
        list(read_frames(bad, range(20)))


def test_missing_frames_are_an_error(video):
    with pytest.raises(InputError, match="2 of its frames are missing"):
        list(read_frames(video, [1, 30, 31]))


def test_without_pyav_the_error_names_the_extra(video, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(MissingExtraError, match=r"\[video\]"):
        list(read_frames(video))


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
    assert len(list(read_frames(file))) == 5


def write_black(path, codec: str, pixels: str, size: tuple[int, int]) -> None:
    """Write a video of three black frames."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25)
        stream.width, stream.height, stream.pix_fmt = *size, pixels
        frame = av.VideoFrame(*size, pixels)
        for plane in frame.planes:
            plane.update(bytes(plane.buffer_size))
        for index in range(3):
            frame.pts = index
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


@pytest.mark.parametrize(
    ("name", "codec", "pixels"), [("x.mov", "png", "rgb24"), ("x.mp4", "libx264", "yuv420p"), ("x.avi", "mjpeg", "yuvj420p")]
)  # fmt: skip
def test_frames_that_are_too_large_are_not_decoded(tmp_path, monkeypatch, name, codec, pixels):
    write_black(tmp_path / name, codec, pixels, (1280, 720))
    assert next(read_frames(tmp_path / name)).size == (1280, 720)
    monkeypatch.setattr(videos, "MAX_VIDEO_PIXELS", 1280 * 720 - 1)
    monkeypatch.setattr(videos, "MAX_PIXELS", {"max_pixels": str(1280 * 720 - 1)})
    monkeypatch.setattr(videos, "_upright", lambda _: pytest.fail("a frame was decoded"))
    for read in (frame_times, lambda path: list(read_frames(path))):
        with pytest.raises(InputError, match="megapixels, or no size"):
            read(tmp_path / name)


def test_frames_that_become_too_large_are_not_decoded(tmp_path, monkeypatch):
    """A stream that can be joined may begin with small frames."""
    file = tmp_path / "x.mpg"
    content = b""
    for size in ((64, 32), (640, 480)):
        write_black(file, "mpeg1video", "yuv420p", size)
        content += file.read_bytes()
    file.write_bytes(content)
    widths = [frame.width for frame in read_frames(file)]
    assert {64, 640} == set(widths)
    monkeypatch.setattr(videos, "MAX_PIXELS", {"max_pixels": str(640 * 480 - 1)})
    read = []
    with suppress(InputError):  # depending on the codec, such frames are errors, or left out
        for frame in read_frames(file):
            read.append(frame.width)
    assert 640 not in read


def test_one_frame_is_kept_at_a_time(video):
    frames = read_frames(video)
    kept = [weakref.ref(next(frames)) for _ in range(5)]
    assert [reference() for reference in kept] == [None] * 5
