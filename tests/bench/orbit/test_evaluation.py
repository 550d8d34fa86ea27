"""Scores of query videos, and their summary over videos and users."""

from __future__ import annotations

import math

import pytest
import torch

from filmtransfer.bench.orbit.evaluation import score_video, summarise


def test_a_video_has_the_most_frequent_label_of_its_frames():
    result = score_video(torch.tensor([1, 1, 0, 2, 1]), 1, "v", ["a", "b", "c"])
    assert (result.frame_accuracy, result.correct, result.frames, result.object_name) == (0.6, True, 5, "b")
    tie = score_video(torch.tensor([0, 0, 1, 1]), 1, "v", ["a", "b"])
    assert not tie.correct  # the first label of a tie counts


def row(user, *videos):
    return {"settings": {"user": user}, "result": {"videos": [["o", "v", 8, f, r] for f, r in videos]}}


def test_intervals_over_videos_and_over_users():
    rows = [row("a", (1.0, True), (0.5, True)), row("a", (0.75, False)), row("b", (0.25, False))]
    summary = summarise(rows, "frame")
    scores = [100, 50, 75, 25]
    spread = (sum((s - 62.5) ** 2 for s in scores) / 3) ** 0.5
    assert summary.mean == 62.5
    assert summary.over_videos == pytest.approx(1.96 * spread / 2)
    assert summary.by_user == {"a": 75.0, "b": 25.0}
    assert summary.mean_of_users == 50
    assert summary.over_users == pytest.approx(1.96 * 50 / 2**0.5 / 2**0.5)
    assert summarise(rows, "video").mean == 50
    assert math.isnan(summarise(rows[:1], "video").over_users)
