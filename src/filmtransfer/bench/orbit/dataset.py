"""ORBIT as it is published: users, their objects, and clean and clutter videos of each object.

    ROOT/test/USER/OBJECT/{clean,clutter}/VIDEO/*.jpg        frames, as published (train, validation, test)
    ROOT/USER/OBJECT/{clean,clutter}/VIDEO.mp4               video files of your own; both forms can be mixed
    ROOT/annotations/test/VIDEO.json                         optional: the frames that do not show the object

Only requested frames are decoded. Videos, objects and users that cannot be used are skipped, with a note that says why.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from ...data.images import SkippedImage, read_squares
from ...data.pixels import SUFFIXES, PixelSpec
from ...data.videos import VIDEO_SUFFIXES, frame_times, read_frames
from ...errors import InputError, check_choice
from ...files import reading

MODES = ("train", "validation", "test")
VIDEO_KINDS = ("clean", "clutter")  # of an object; either can be the query videos of a task
FRAME_CAP = 1000  # of one video (ORBIT's protocol)
ABSENT = "object_not_present_issue"


@dataclass(frozen=True)
class OrbitVideo:
    """A folder of frames, or a video file of which ``rate`` frames a second are used (None: all)."""

    path: Path
    annotations: Path | None = None
    rate: float | None = None

    @property
    def name(self) -> str:
        """The name of the folder, or of the file without its suffix."""
        return self.path.stem if self.path.is_file() else self.path.name

    @cached_property
    def frames(self) -> Sequence[Path | int]:
        """The frames, at most 1000: paths, or indices in a video file."""
        if self.path.is_dir():
            return [p for p in _entries(self.path) if p.suffix.lower() in SUFFIXES][:FRAME_CAP]
        return [i for i, _ in frame_times(self.path, self.rate)][:FRAME_CAP]

    @cached_property
    def absent(self) -> list[bool]:
        """Whether each frame is annotated as not showing the object; False without annotations."""
        if self.annotations is None or not self.annotations.is_file():
            return [False] * len(self.frames)
        try:
            annotated = json.loads(self.annotations.read_text(encoding="utf-8"))
            names = [f.name if isinstance(f, Path) else str(f) for f in self.frames]
            return [bool((annotated.get(name) or {}).get(ABSENT)) for name in names]
        except (OSError, ValueError, AttributeError) as error:
            raise InputError(f"{self.annotations} cannot be read ({str(error)[:80]}).") from None

    def read(
        self, chosen: Sequence[int], spec: PixelSpec
    ) -> tuple[list[np.ndarray | None], list[SkippedImage]]:
        """Return the chosen frames as uint8 (3, S, S), None for an unreadable one, and the reasons."""
        if self.path.is_dir():
            paths = [Path(str(self.frames[i])) for i in chosen]
            return read_squares(paths, spec, [str(path) for path in paths])
        indices = [int(str(self.frames[i])) for i in chosen]
        squares: dict[int, np.ndarray | None] = {}
        skipped: list[SkippedImage] = []
        try:
            for index, image in zip(sorted(set(indices)), read_frames(self.path, indices), strict=True):
                (squares[index],), reasons = read_squares([image], spec, [f"{self.path} frame {index}"])
                skipped += reasons
        except InputError as error:
            return [None] * len(indices), [SkippedImage(str(self.path), error.message)]
        return [squares[index] for index in indices], skipped


@dataclass(frozen=True)
class OrbitObject:
    """An object of a user, with its videos."""

    name: str
    clean: list[OrbitVideo]
    clutter: list[OrbitVideo]


@dataclass(frozen=True)
class OrbitUser:
    """A user with objects to recognise; ``notes`` say what was skipped."""

    name: str
    objects: list[OrbitObject]
    notes: list[str] = field(default_factory=list)


def user_names(root: str | Path, mode: str = "test") -> list[str]:
    """Return the users below ``root/mode``, or below ``root`` itself if it has no such folder."""
    base = _base(Path(root), mode)
    names = [p.name for p in _folders(base) if any(_is_object(q) for q in _folders(p))]
    if not names:
        raise InputError(
            f"{base} has no users of ORBIT.",
            "It needs folders as in USER/OBJECT/clean/VIDEO/frame.jpg or USER/OBJECT/clean/VIDEO.mp4.",
        )
    return names


def read_user(root: str | Path, name: str, mode: str = "test", rate: float | None = None) -> OrbitUser:
    """Read the objects of a user; videos without frames and objects without a clean video are skipped."""
    base = _base(Path(root), mode)
    annotations = base.parent / "annotations" / mode if base.name == mode else base / "annotations"
    user = OrbitUser(name, [])
    if not (base / name).is_dir():
        raise InputError(
            f"There is no user {name} in {base}.", f"Users: {', '.join(user_names(root, mode))}."
        )
    for folder in _folders(base / name):
        if not _is_object(folder):
            user.notes.append(f"{folder.name} has neither a clean nor a clutter folder: skipped.")
            continue
        videos = {kind: list(_videos(folder / kind, annotations, rate, user.notes)) for kind in VIDEO_KINDS}
        if not videos["clean"]:
            user.notes.append(f"{folder.name} has no clean video to learn from: skipped.")
            continue
        if not videos["clutter"]:
            user.notes.append(
                f"{folder.name} has no clutter video: it is learned, but has no clutter queries."
            )
        user.objects.append(OrbitObject(folder.name, videos["clean"], videos["clutter"]))
    return user


def _base(root: Path, mode: str) -> Path:
    check_choice("The part of ORBIT", mode, MODES)
    if not root.is_dir():
        raise InputError(f"There is no folder {root}.", "Name ORBIT's folder with --data-root.")
    if (root / mode).is_dir():
        return root / mode
    if other := [m for m in MODES if (root / m).is_dir()]:
        raise InputError(f"{root} has no part {mode}.", f"It has: {', '.join(other)}.")
    return root


def _videos(folder: Path, annotations: Path, rate: float | None, notes: list[str]) -> Iterator[OrbitVideo]:
    title = f"{folder.parent.name}/{folder.name}"
    if not folder.is_dir():
        return
    if loose := [p for p in _entries(folder) if p.suffix.lower() in SUFFIXES and p.is_file()]:
        notes.append(f"{len(loose)} images directly in {title} belong to no video: skipped.")
    for path in _entries(folder):
        if not path.is_dir() and path.suffix.lower() not in VIDEO_SUFFIXES:
            continue
        video = OrbitVideo(path, annotations / f"{path.stem if path.is_file() else path.name}.json", rate)
        try:
            empty = not video.frames
        except InputError as error:
            notes.append(f"{title}/{path.name}: {error.message}: skipped.")
            continue
        if empty:
            notes.append(f"{title}/{path.name} has no frames: skipped.")
        else:
            yield video


def _is_object(folder: Path) -> bool:
    return any((folder / kind).is_dir() for kind in VIDEO_KINDS)


def _folders(folder: Path) -> list[Path]:
    return [p for p in _entries(folder) if p.is_dir()]


def _entries(folder: Path) -> list[Path]:
    with reading(folder):
        return sorted(p for p in folder.iterdir() if not p.name.startswith("."))
