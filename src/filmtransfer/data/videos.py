"""Frames of a video file, decoded with PyAV: upright, in the order they are shown, at a rate if asked.

Telephones store how the camera was held as a rotation beside the picture; it is undone here as EXIF's is for photos.
What frames there are is told from the packets, without decoding; which of them are wanted is the caller's choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from ..errors import InputError, MissingExtraError

VIDEO_SUFFIXES = frozenset([".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm", ".3gp", ".mpg", ".mpeg", ".wmv"])


def frame_times(path: str | Path, rate: float | None = None) -> list[tuple[int, float]]:
    """The index and the time in seconds of each frame; with ``rate`` only of so many frames a second."""
    if rate is not None and rate <= 0:
        raise InputError(f"{rate} frames a second are none.", "Give a rate above 0.")
    with _opened(path) as (container, stream):
        stamps = [
            p.pts if p.pts is not None else p.dts or 0 for p in container.demux(stream) if p.size
        ]  # shown in another order than stored
        scale = float(stream.time_base or 1)
    times = [(i, stamp * scale) for i, stamp in enumerate(sorted(stamps))]
    return times if rate is None else list(_at_rate(times, rate))


def read_frames(path: str | Path, wanted: Iterable[int] | None = None) -> list[Image.Image]:
    """The frames with these indices (all, if none are named), in the order of the video."""
    chosen = None if wanted is None else set(wanted)
    last = None if chosen is None else max(chosen, default=-1)
    frames: list[Image.Image] = []
    with _opened(path) as (container, stream):
        for i, frame in enumerate(container.decode(stream)):
            if last is not None and i > last:
                break
            if chosen is None or i in chosen:
                frames.append(_upright(frame))
    if chosen is not None and len(frames) < len(chosen):
        raise InputError(f"the video is damaged: {len(chosen) - len(frames)} of its frames are missing")
    return frames


def _at_rate(times: list[tuple[int, float]], rate: float) -> Iterator[tuple[int, float]]:
    """The first frame, and each first one that comes when the next is due."""
    begin = times[0][1] if times else 0.0
    due = 0
    for i, time in times:
        if (time - begin) * rate >= due - 1e-6:
            yield i, time
            due = int((time - begin) * rate + 1e-6) + 1


def _upright(frame: Any) -> Image.Image:
    picture: Image.Image = frame.to_image()
    turn = round(frame.rotation) % 360  # counter-clockwise, as Pillow turns
    return picture.rotate(turn, expand=True) if turn else picture


@contextmanager
def _opened(path: str | Path) -> Iterator[tuple[Any, Any]]:
    try:
        import av
    except ImportError:
        raise MissingExtraError("Reading videos", "video") from None
    place = Path(path)
    try:
        if place.stat().st_size == 0:
            raise InputError("the file is empty")
        with av.open(str(place)) as container:
            if not container.streams.video:
                raise InputError("there is no picture in this file")
            yield container, container.streams.video[0]
    except FileNotFoundError:
        raise InputError("there is no such file") from None
    except (av.FFmpegError, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        words = str(getattr(error, "strerror", None) or error)[:80]
        raise InputError(f"the video is damaged, or no video ({words})") from None
