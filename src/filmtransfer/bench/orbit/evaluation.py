"""One task of ORBIT: learn from a user's clips, be asked for whole videos, frame by frame.

Each frame is judged with the seven before it. Frame accuracy is the share of a video's frames that are right, video
accuracy whether most of them are. Both are averaged over all videos of all tasks of all users, as in the paper's table;
an interval over users stands beside, since videos of one user are not independent.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import InputError
from ...estimator import versions
from ...model import AdaptedModel
from ...training.assess.evaluation import mean_interval
from ...training.finetune.clips import with_history
from .dataset import OrbitUser, read_user
from .personalization import personalize, prepare_method
from .tasks import OrbitProtocol, read_clips, read_video, sample_task


@dataclass(frozen=True)
class VideoResult:
    """How a video was recognised."""

    name: str
    thing: str
    frames: int
    frame_accuracy: float
    right: bool


def evaluate_task(settings: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Do a task, and say how it went."""
    user = _user(str(root), str(settings["user"]), str(settings.get("mode", "test")), settings.get("rate"))
    protocol = OrbitProtocol.of(settings)
    seed = int(settings.get("seed", 0))
    task = sample_task(user, str(settings["videos"]), int(settings["task"]), seed, protocol)
    method = prepare_method(settings)
    began = time.monotonic()
    clips = read_clips(task, replace(method.backbone.pixels, size=method.side))
    read = time.monotonic()
    personal = personalize(
        method, clips, protocol.clip_length, len(task.classes), seed + int(settings["task"])
    )
    trained = time.monotonic()
    spec = replace(method.backbone.pixels, size=method.size)
    judged, notes = [], [*user.notes, *clips.notes]
    for label, video in task.asked:
        pixels, missing = read_video(video, spec, protocol.present_only)
        notes += missing
        if pixels is None:
            notes.append(f"{video.name} has no frame to be asked for: left out.")
            continue
        found = classify_frames(personal.model, pixels, protocol.clip_length)
        judged.append(score_video(found, label, video.name, task.classes))
    if not judged:
        raise InputError(f"{user.name}: no video that is asked for can be read.", notes[-1])
    return {
        "accuracy": _mean(v.frame_accuracy for v in judged),
        "video_accuracy": _mean(float(v.right) for v in judged),
        "videos": [[v.thing, v.name, v.frames, round(v.frame_accuracy, 6), v.right] for v in judged],
        "classes": len(task.classes),
        "clips": len(clips.labels),
        "shared": personal.shared,
        "numbers": personal.own,
        "steps": personal.history.steps,
        "stopped": personal.history.stopped,
        "loss": personal.history.losses[-1] if personal.history.losses else None,
        "seconds_reading": round(read - began, 1),
        "seconds": round(trained - read, 1),
        "seconds_in_all": round(time.monotonic() - began, 1),
        "backbone_sha256": method.backbone.digest,
        "versions": versions(),
        "notes": notes,
    }


def classify_frames(model: AdaptedModel, frames: Tensor, length: int) -> Tensor:
    """The label of each frame of a video (N), told from it and the frames before it."""
    features = with_history(model.features(frames), length)
    assert model.head is not None
    found: Tensor = model.head.classes[model.head.logits(features).argmax(1).cpu()]
    return found


def score_video(found: Tensor, label: int, name: str, classes: Sequence[str]) -> VideoResult:
    """Frame by frame, and by the label that most frames got (of two as frequent the first)."""
    most = int(torch.bincount(found, minlength=len(classes)).argmax())
    share = float((found == label).double().mean())
    return VideoResult(name, classes[label], len(found), share, most == label)


@dataclass(frozen=True)
class Summary:
    """Percent over all videos, with 95% intervals over videos (the paper's) and over users."""

    mean: float
    over_videos: float
    by_user: dict[str, float]
    mean_of_users: float
    over_users: float


def summarise(rows: Iterable[Mapping[str, Any]], metric: str) -> Summary:
    """Of the result lines of one method and kind of video: ``frame`` or ``video`` accuracy."""
    place = {"frame": 3, "video": 4}[metric]
    scores: dict[str, list[float]] = {}
    for row in rows:
        own = scores.setdefault(str(row["settings"]["user"]), [])
        own += [100 * float(video[place]) for video in row["result"]["videos"]]
    mean, half = mean_interval([s for own in scores.values() for s in own])
    by_user = {user: sum(own) / len(own) for user, own in sorted(scores.items())}
    of_users, over_users = mean_interval(list(by_user.values()))
    return Summary(mean, half, by_user, of_users, over_users)


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


@lru_cache(maxsize=4)
def _user(root: str, name: str, mode: str, rate: float | None) -> OrbitUser:
    return read_user(root, name, mode, rate)
