"""One task of ORBIT: train on a user's support clips, and classify the query videos frame by frame.

Each frame is classified together with the seven frames before it. Frame accuracy is the fraction of a video's frames that
are correctly classified, video accuracy whether the most frequent prediction is correct. Both are averaged over all
videos of all tasks of all users, as in the paper's table; since videos of one user are not independent, there is also
an interval over users.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from ...errors import InputError
from ...model import AdaptedModel
from ...model.metadata import library_versions
from ...training.assess.evaluation import mean_interval
from ...training.finetune.clips import with_history
from ..rows import Row, RunResult, RunSettings
from .dataset import read_user
from .personalization import personalize, prepare_method
from .tasks import OrbitProtocol, read_clips, read_video, sample_task

_read_user = lru_cache(maxsize=4)(read_user)


@dataclass(frozen=True)
class VideoResult:
    """How well a query video was classified."""

    name: str
    object_name: str
    frames: int
    frame_accuracy: float
    correct: bool


def evaluate_task(settings: RunSettings, root: Path) -> RunResult:
    """Train on a task, and return what the results file stores about it."""
    mode = str(settings.get("mode", "test"))
    user = _read_user(str(root), str(settings["user"]), mode, settings.get("rate"))
    protocol = OrbitProtocol.from_settings(settings)
    seed = int(settings.get("seed", 0))
    task = sample_task(user, str(settings["videos"]), int(settings["task"]), seed, protocol)
    method = prepare_method(settings)
    began = time.monotonic()
    clips = read_clips(task, replace(method.backbone.pixels, size=method.read_size))
    read = time.monotonic()
    personal = personalize(
        method, clips, protocol.clip_length, len(task.classes), seed + int(settings["task"])
    )
    trained = time.monotonic()
    spec = replace(method.backbone.pixels, size=method.size)
    videos, notes = [], [*user.notes, *clips.notes]
    for label, video in task.queries:
        pixels, skipped = read_video(video, spec, protocol.present_only)
        notes += skipped
        if pixels is None:
            notes.append(f"{video.name} has no query frame: skipped.")
            continue
        predicted = classify_frames(personal.model, pixels, protocol.clip_length)
        videos.append(score_video(predicted, label, video.name, task.classes))
    if not videos:
        raise InputError(f"{user.name}: no query video can be read.", notes[-1])
    return {
        "accuracy": sum(v.frame_accuracy for v in videos) / len(videos),
        "video_accuracy": sum(v.correct for v in videos) / len(videos),
        "videos": [[v.object_name, v.name, v.frames, round(v.frame_accuracy, 6), v.correct] for v in videos],
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
        "versions": library_versions(),
        "notes": notes,
    }


def classify_frames(model: AdaptedModel, frames: Tensor, length: int) -> Tensor:
    """Return the predicted label of each frame of a video (N), from the frame and those before it."""
    features = with_history(model.features(frames), length)
    predicted: Tensor = model.head.classes[model.head.logits(features).argmax(1).cpu()]
    return predicted


def score_video(predicted: Tensor, label: int, name: str, classes: Sequence[str]) -> VideoResult:
    """Score the predictions of a video by frame, and by the most frequent label (the first one of a tie)."""
    most_frequent = int(torch.bincount(predicted, minlength=len(classes)).argmax())
    accuracy = float((predicted == label).double().mean())
    return VideoResult(name, classes[label], len(predicted), accuracy, most_frequent == label)


@dataclass(frozen=True)
class Summary:
    """Percent over all videos, with 95% intervals over videos (the paper's) and over users."""

    mean: float
    over_videos: float
    by_user: dict[str, float]
    mean_of_users: float
    over_users: float


def summarise(rows: Iterable[Row], metric: str) -> Summary:
    """Summarise the ``frame`` or ``video`` accuracy of the rows of one method and kind of query videos."""
    column = {"frame": 3, "video": 4}[metric]
    scores: dict[str, list[float]] = {}
    for row in rows:
        own = scores.setdefault(str(row["settings"]["user"]), [])
        own += [100 * float(video[column]) for video in row["result"]["videos"]]
    mean, over_videos = mean_interval([s for own in scores.values() for s in own])
    by_user = {user: sum(own) / len(own) for user, own in sorted(scores.items())}
    mean_of_users, over_users = mean_interval(list(by_user.values()))
    return Summary(mean, over_videos, by_user, mean_of_users, over_users)
