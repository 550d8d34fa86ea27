"""ORBIT's test tasks: what a user's model learns from, and what it is asked.

All of the user's objects are in every task. It learns from clips of clean videos: of each video a random number of its
clips, at most ten. It is asked for whole videos: clutter videos of the same objects, or clean ones it has not seen (the
first five, or all but one, are to learn from then).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from ...data import PixelSpec
from ...errors import InputError, UsageError, invalid_choice
from ...seeding import integer, make_generator, permutation
from .dataset import OrbitObject, OrbitUser, OrbitVideo

QUERY_KINDS = ("clean", "clutter")


@dataclass(frozen=True)
class OrbitProtocol:
    """The numbers of the protocol; those of the benchmark's own code (2022), which the paper used."""

    clip_length: int = 8
    clips_per_video: int = 10  # a random number up to this
    videos_per_object: int = 15
    clean_to_learn: int = 5  # when clean videos are asked for
    present_only: bool = False  # ask only for frames that are not noted as lacking the object

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> OrbitProtocol:
        """With what a run says of it."""
        chosen = {f.name: settings[f.name] for f in fields(cls) if f.name in settings}
        for name, value in chosen.items():
            if name == "present_only":
                if not isinstance(value, bool):
                    raise UsageError(f"{name} cannot be {value!r}.", "It is true or false.")
            elif not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise UsageError(f"{name} cannot be {value!r}.", "It is a whole number of at least 1.")
        return cls(**chosen)


@dataclass(frozen=True)
class Clip:
    """Frames in a row of one video."""

    label: int
    video: int  # a number for each video of the task
    source: OrbitVideo
    frames: list[int]


@dataclass(frozen=True)
class OrbitTask:
    """What is learned from, and the videos that are asked for with the label of their object."""

    user: str
    classes: list[str]
    clips: list[Clip]
    asked: list[tuple[int, OrbitVideo]]


def sample_task(
    user: OrbitUser, asked: str, number: int, seed: int, protocol: OrbitProtocol | None = None
) -> OrbitTask:
    """Task ``number`` of a user; the same for every method."""
    protocol = protocol or OrbitProtocol()
    if asked not in QUERY_KINDS:
        raise invalid_choice("The videos asked for", asked, QUERY_KINDS)
    if len(user.objects) < 2:
        raise InputError(
            f"{user.name} has {len(user.objects)} object{'s' * (len(user.objects) != 1)} that can be learned.",
            "Telling objects apart needs two.",
        )
    generator = make_generator(seed, "orbit", user.name, asked, number)
    clips: list[Clip] = []
    queries: list[tuple[int, OrbitVideo]] = []
    count = 0
    for label, thing in enumerate(user.objects):
        learn, ask = divide(thing, asked, protocol)
        for video in _some(learn, protocol.videos_per_object, generator):
            cut = cut_clips(len(video.frames), protocol.clip_length)
            wanted = integer(1, min(len(cut), protocol.clips_per_video), generator)
            chosen = sorted(permutation(len(cut), generator)[:wanted].tolist())
            clips += [Clip(label, count, video, cut[i]) for i in chosen]
            count += 1
        queries += [(label, video) for video in _some(ask, protocol.videos_per_object, generator)]
    if not queries:
        raise InputError(
            f"{user.name} has no {asked} video to be asked for.",
            "Add clutter videos." if asked == "clutter" else "Add a second clean video of an object.",
        )
    return OrbitTask(user.name, [thing.name for thing in user.objects], clips, queries)


def divide(
    thing: OrbitObject, asked: str, protocol: OrbitProtocol
) -> tuple[list[OrbitVideo], list[OrbitVideo]]:
    """Videos to learn from and to ask for; the only clean video of an object is learned from, and not asked for."""
    if asked == "clutter":
        return thing.clean, thing.clutter
    split = max(min(protocol.clean_to_learn, len(thing.clean) - 1), 1)
    return thing.clean[:split], thing.clean[split:]


def cut_clips(frames: int, length: int) -> list[list[int]]:
    """Clips in a row without overlap; the last one ends with the last frame again, if frames are lacking."""
    places = [*range(frames), *[frames - 1] * (-frames % length)]
    return [places[begin : begin + length] for begin in range(0, len(places), length)]


@dataclass
class SupportClips:
    """The frames of a task's clips, one clip after the other, and what clip is of which object and video."""

    pixels: Tensor
    labels: Tensor
    videos: Tensor
    notes: list[str] = field(default_factory=list)


def read_clips(task: OrbitTask, spec: PixelSpec) -> SupportClips:
    """Decode what is learned from; a clip with a frame that cannot be read is left out, and it is said."""
    pixels: list[Tensor] = []
    kept: list[Clip] = []
    notes: list[str] = []
    for source, clips in _by_video(task.clips):
        squares, skipped = source.read([f for clip in clips for f in clip.frames], spec)
        notes += [f"{s.name}: {s.reason}." for s in skipped[:1]]
        length = len(clips[0].frames)
        for i, clip in enumerate(clips):
            found = [s for s in squares[i * length : (i + 1) * length] if s is not None]
            if len(found) == length:
                pixels += found
                kept.append(clip)
    labels = torch.tensor([clip.label for clip in kept], dtype=torch.long)
    lost = [name for c, name in enumerate(task.classes) if c not in labels]
    if lost:
        raise InputError(
            f"{task.user}: no clip of {', '.join(lost)} can be read" + (f" ({notes[0]})." if notes else "."),
            "Replace its videos, or remove the object.",
        )
    return SupportClips(torch.stack(pixels), labels, torch.tensor([clip.video for clip in kept]), notes)


def read_video(
    video: OrbitVideo, spec: PixelSpec, present_only: bool = False
) -> tuple[Tensor | None, list[str]]:
    """The frames of a video that is asked for; those that cannot be read are left out, and it is said."""
    chosen = [i for i, absent in enumerate(video.absent) if not (present_only and absent)]
    squares, skipped = video.read(chosen, spec)
    found = [square for square in squares if square is not None]
    notes = [f"{s.name}: {s.reason}." for s in skipped[:1]]
    return (torch.stack(found) if found else None), notes


def _some(videos: Sequence[OrbitVideo], cap: int, generator: torch.Generator) -> list[OrbitVideo]:
    """In random order, at most ``cap`` of them."""
    return [videos[i] for i in permutation(len(videos), generator)[:cap].tolist()]


def _by_video(clips: Sequence[Clip]) -> list[tuple[OrbitVideo, list[Clip]]]:
    found: dict[int, list[Clip]] = {}
    for clip in clips:
        found.setdefault(clip.video, []).append(clip)
    return [(group[0].source, group) for group in found.values()]
