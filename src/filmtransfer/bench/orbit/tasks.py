"""The test tasks of ORBIT: support clips and query videos of one user.

All objects of the user are in every task. The support set consists of clips of clean videos: a random number of clips of
each video, at most ten. The queries are complete videos: clutter videos of the same objects, or clean videos that are not
in the support set (the first five, or all but one, of an object are support videos then).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np
import torch
from torch import Tensor

from ...data import PixelSpec
from ...errors import InputError, UsageError, check_choice, check_count
from ...seeding import integer, make_generator, permutation
from ..rows import RunSettings, group_by
from .dataset import VIDEO_KINDS, OrbitObject, OrbitUser, OrbitVideo


@dataclass(frozen=True)
class OrbitProtocol:
    """The settings of the protocol; the defaults are those of the benchmark's code of 2022, which the paper used."""

    clip_length: int = 8
    clips_per_video: int = 10  # a random number up to this
    videos_per_object: int = 15
    clean_to_learn: int = 5  # when clean videos are the queries
    present_only: bool = False  # without query frames that are annotated as not showing the object

    @classmethod
    def from_settings(cls, settings: RunSettings) -> OrbitProtocol:
        """Return the protocol of a run."""
        chosen = {f.name: settings[f.name] for f in fields(cls) if f.name in settings}
        for name, value in chosen.items():
            if name == "present_only":
                if not isinstance(value, bool):
                    raise UsageError(f"{name} cannot be {value!r}.", "It is true or false.")
            else:
                check_count(name, value)
        return cls(**chosen)


@dataclass(frozen=True)
class Clip:
    """Consecutive frames of one video."""

    label: int
    video: int  # the index of the video in the task
    source: OrbitVideo
    frames: list[int]


@dataclass(frozen=True)
class OrbitTask:
    """Support clips, and query videos with the label of their object."""

    user: str
    classes: list[str]
    clips: list[Clip]
    queries: list[tuple[int, OrbitVideo]]


def sample_task(
    user: OrbitUser, query_kind: str, number: int, seed: int, protocol: OrbitProtocol | None = None
) -> OrbitTask:
    """Sample task ``number`` of a user, which is the same for every method."""
    protocol = protocol or OrbitProtocol()
    check_choice("The kind of query videos", query_kind, VIDEO_KINDS)
    if len(user.objects) < 2:
        raise InputError(
            f"{user.name} has {len(user.objects)} object{'s' * (len(user.objects) != 1)} with clean videos.",
            "A classifier needs two.",
        )
    generator = make_generator(seed, "orbit", user.name, query_kind, number)
    clips: list[Clip] = []
    queries: list[tuple[int, OrbitVideo]] = []
    count = 0
    for label, item in enumerate(user.objects):
        support_videos, query_videos = split_videos(item, query_kind, protocol)
        for video in _sample(support_videos, protocol.videos_per_object, generator):
            segments = cut_clips(len(video.frames), protocol.clip_length)
            clip_count = integer(1, min(len(segments), protocol.clips_per_video), generator)
            chosen = sorted(permutation(len(segments), generator)[:clip_count].tolist())
            clips += [Clip(label, count, video, segments[i]) for i in chosen]
            count += 1
        queries += [(label, video) for video in _sample(query_videos, protocol.videos_per_object, generator)]
    if not queries:
        raise InputError(
            f"{user.name} has no {query_kind} query video.",
            "Add clutter videos." if query_kind == "clutter" else "Add a second clean video of an object.",
        )
    return OrbitTask(user.name, [item.name for item in user.objects], clips, queries)


def split_videos(
    item: OrbitObject, query_kind: str, protocol: OrbitProtocol
) -> tuple[list[OrbitVideo], list[OrbitVideo]]:
    """Return the support and the query videos of an object; an only clean video is a support video."""
    if query_kind == "clutter":
        return item.clean, item.clutter
    split = max(min(protocol.clean_to_learn, len(item.clean) - 1), 1)
    return item.clean[:split], item.clean[split:]


def cut_clips(frames: int, length: int) -> list[list[int]]:
    """Return consecutive clips without overlap; the last frame is repeated to fill the last clip."""
    indices = [*range(frames), *[frames - 1] * (-frames % length)]
    return [indices[begin : begin + length] for begin in range(0, len(indices), length)]


@dataclass
class SupportClips:
    """The frames of the support clips, one clip after the other, and the object and video of each clip."""

    pixels: Tensor
    labels: Tensor
    videos: Tensor
    notes: list[str] = field(default_factory=list)


def read_clips(task: OrbitTask, spec: PixelSpec) -> SupportClips:
    """Decode the support clips; a clip with an unreadable frame is skipped, with a note."""
    pixels: list[np.ndarray] = []
    kept: list[Clip] = []
    notes: list[str] = []
    for clips in group_by(task.clips, lambda clip: clip.video).values():
        squares, skipped = clips[0].source.read([f for clip in clips for f in clip.frames], spec)
        notes += [f"{s.name}: {s.reason}." for s in skipped[:1]]
        length = len(clips[0].frames)
        for i, clip in enumerate(clips):
            frames = [s for s in squares[i * length : (i + 1) * length] if s is not None]
            if len(frames) == length:
                pixels += frames
                kept.append(clip)
    labels = torch.tensor([clip.label for clip in kept], dtype=torch.long)
    unreadable = [name for c, name in enumerate(task.classes) if c not in labels]
    if unreadable:
        raise InputError(
            f"{task.user}: no clip of {', '.join(unreadable)} can be read"
            + (f" ({notes[0]})." if notes else "."),
            "Replace its videos, or remove the object.",
        )
    videos = torch.tensor([clip.video for clip in kept])
    return SupportClips(torch.from_numpy(np.stack(pixels)), labels, videos, notes)


def read_video(
    video: OrbitVideo, spec: PixelSpec, present_only: bool = False
) -> tuple[Tensor | None, list[str]]:
    """Decode the frames of a query video; unreadable frames are skipped, with a note."""
    chosen = [i for i, absent in enumerate(video.absent) if not (present_only and absent)]
    squares, skipped = video.read(chosen, spec)
    frames = [square for square in squares if square is not None]
    notes = [f"{s.name}: {s.reason}." for s in skipped[:1]]
    return (torch.from_numpy(np.stack(frames)) if frames else None), notes


def _sample(videos: Sequence[OrbitVideo], cap: int, generator: torch.Generator) -> list[OrbitVideo]:
    """Return at most ``cap`` videos in random order."""
    return [videos[i] for i in permutation(len(videos), generator)[:cap].tolist()]
