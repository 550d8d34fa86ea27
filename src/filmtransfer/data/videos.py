"""Frames of a video file, decoded with PyAV: upright, in presentation order, optionally at a lower rate.

FFmpeg knows protocols and playlists, with which a file can name others to open, on this machine or elsewhere. Only the
containers of videos are read, and nothing but the file itself is opened.

Phones store the orientation of the camera as a rotation, which is applied here like that of EXIF for photos.
The list of frames is read from the packets without decoding; the caller selects the frames to decode, and gets one at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from ..budgets import MAX_VIDEO_PIXELS
from ..errors import InputError, MissingExtraError
from ..files import open_regular

if TYPE_CHECKING:
    import av
    from av.container import InputContainer

VIDEO_SUFFIXES = frozenset([".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm", ".3gp", ".mpg", ".mpeg", ".wmv"])
LOCAL_ONLY = {
    "protocol_whitelist": "file",
    "format_whitelist": "mov,avi,matroska,webm,mpeg,mpegvideo,mpegts,asf",
}
MAX_PIXELS = {"max_pixels": str(MAX_VIDEO_PIXELS)}  # FFmpeg also decodes frames when it opens a file


def frame_times(path: str | Path, rate: float | None = None) -> list[tuple[int, float]]:
    """Return the index and the time in seconds of each frame, or of ``rate`` frames per second."""
    if rate is not None and rate <= 0:
        raise InputError(f"The frame rate cannot be {rate}.", "Give a rate above 0.")
    with _opened(path) as (container, video):
        timestamps = [p.pts if p.pts is not None else p.dts or 0 for p in container.demux(video) if p.size]
        scale = float(video.time_base or 1)
    # Sorted: frames are stored in another order than they are presented in.
    times = [(i, timestamp * scale) for i, timestamp in enumerate(sorted(timestamps))]
    return times if rate is None else list(_at_rate(times, rate))


def read_frames(path: str | Path, indices: Iterable[int] | None = None) -> Iterator[Image.Image]:
    """Yield the frames with these indices, or all frames, in the order of the video."""
    selected = None if indices is None else set(indices)
    last = None if selected is None else max(selected, default=-1)
    count = 0
    with _opened(path) as (container, video):
        for i, frame in enumerate(container.decode(video)):
            if last is not None and i > last:
                break
            if selected is None or i in selected:
                yield _upright(frame)
                count += 1
    if selected is not None and count < len(selected):
        raise InputError(f"the video is damaged: {len(selected) - count} of its frames are missing")


def _at_rate(times: list[tuple[int, float]], rate: float) -> Iterator[tuple[int, float]]:
    """Yield the first frame, and then the first frame after each multiple of 1 / rate."""
    start = times[0][1] if times else 0.0
    due = 0
    for i, time in times:
        if (time - start) * rate >= due - 1e-6:
            yield i, time
            due = int((time - start) * rate + 1e-6) + 1


def _upright(frame: av.VideoFrame) -> Image.Image:
    image: Image.Image = frame.to_image()  # type: ignore[no-untyped-call]
    angle = round(frame.rotation) % 360  # counter-clockwise, as Pillow rotates
    return image.rotate(angle, expand=True) if angle else image


@contextmanager
def _opened(path: str | Path) -> Iterator[tuple[InputContainer, av.VideoStream]]:
    try:
        import av
    except ImportError:
        raise MissingExtraError("Reading videos", "video") from None
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise InputError("the file is empty")
        with av.open(f"file:{os.fspath(path)}", options=LOCAL_ONLY | MAX_PIXELS) as container:
            if not container.streams.video:
                raise InputError("the file contains no video")
            video = container.streams.video[0]
            if not 0 < video.codec_context.width * video.codec_context.height <= MAX_VIDEO_PIXELS:
                raise InputError(
                    f"its frames have more than {MAX_VIDEO_PIXELS // 10**6} megapixels, or no size"
                )
            video.codec_context.options = MAX_PIXELS  # their size may change
            yield container, video
    except FileNotFoundError:
        raise InputError("there is no such file") from None
    except (av.FFmpegError, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        message = str(getattr(error, "strerror", None) or error)[:80]
        raise InputError(f"the file is damaged, or not a video ({message})") from None
