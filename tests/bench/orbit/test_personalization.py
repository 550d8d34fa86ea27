"""A user's model by each method of the paper's table, on a small set in ORBIT's layout."""

from __future__ import annotations

import math
import shutil

import pytest
import torch

from filmtransfer.backbones import backbone_facts
from filmtransfer.bench.orbit.evaluation import classify_frames, evaluate_task, score_video, summarise
from filmtransfer.bench.orbit.personalization import personalize, prepare_method
from filmtransfer.bench.orbit.sample import make_sample
from filmtransfer.bench.orbit.tasks import SupportClips
from filmtransfer.errors import InputError, UsageError

SETTINGS = {
    "user": "P001", "videos": "clutter", "task": 0, "seed": 0, "backbone": "efficientnet_lite0", "preset": "orbit_b0",
    "image_size": 32, "clip_length": 2, "clips_per_video": 2, "method": "x",
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("orbit")
    return make_sample(folder, users=1, objects=2, clean=3, clutter=1, frames=6, size=32)


def test_fit_moves_film_and_is_the_same_each_time(made):
    runs = [evaluate_task({**SETTINGS, "head": "lda", "steps": 2}, made) for _ in range(2)]
    for name in ("accuracy", "videos", "loss", "steps"):
        assert runs[0][name] == runs[1][name]
    result = runs[0]
    assert result["steps"] == 2
    assert result["numbers"] == 1281 * 2 + 20544
    assert result["shared"] == backbone_facts("efficientnet_lite0").parameters
    assert len(result["videos"]) == 2
    assert result["accuracy"] == pytest.approx(sum(v[3] for v in result["videos"]) / 2)
    assert evaluate_task({**SETTINGS, "head": "lda", "steps": 2, "videos": "clean"}, made)["classes"] == 2


def test_the_papers_steps_and_rates():
    for preset, rate in (("orbit_b0", 0.007), ("orbit_bit", 0.003)):
        method = prepare_method({"backbone": "efficientnet_lite0", "head": "lda", "preset": preset})
        assert (method.settings.steps, method.settings.learning_rate) == (50, rate)
        assert method.size == method.side == 224


@pytest.mark.parametrize(("head", "own"), [("linear", 1281 * 2), ("protonets", 1280 * 2), ("lda", 1281 * 2)])
def test_methods_that_leave_the_backbone_alone(made, head, own):
    result = evaluate_task({**SETTINGS, "head": head, "train": "none"}, made)
    assert (result["steps"], result["numbers"]) == (0, own)
    assert result["shared"] == backbone_facts("efficientnet_lite0").parameters


def test_bit_learns_every_weight(made):
    result = evaluate_task(
        {**SETTINGS, "head": "linear", "train": "all", "preset": "bit", "steps": 2, "batch": 4}, made
    )
    assert result["steps"] == 2
    assert result["shared"] == 0
    assert result["numbers"] == backbone_facts("efficientnet_lite0").parameters + 1281 * 2


def test_fine_tuning_learns(made):
    """The loss on the same kind of task falls, and ψ is no longer (1, 0)."""
    del made
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 255, (16, 3, 32, 32), generator=generator, dtype=torch.uint8)
    pixels[:8, 0] //= 3
    task = SupportClips(pixels, torch.tensor([0] * 4 + [1] * 4), torch.arange(8) // 2)
    method = prepare_method({**SETTINGS, "head": "lda", "steps": 6, "split": "split"})
    personal = personalize(method, task, 2, 2, 0)
    losses = personal.history.losses
    assert losses[-1] < losses[0]
    assert any(
        float((p.detach() - float(n.endswith("gamma"))).abs().max()) > 0
        for n, p in personal.model.backbone_parameters().items()
    )
    found = classify_frames(personal.model, pixels[:8], 2)
    assert found.tolist() == [0] * 8


def test_one_clip_of_each_object_is_a_head_without_fine_tuning():
    pixels = torch.zeros(4, 3, 32, 32, dtype=torch.uint8)
    pixels[2:] = 200
    task = SupportClips(pixels, torch.tensor([0, 1]), torch.tensor([0, 1]))
    personal = personalize(prepare_method({**SETTINGS, "head": "lda", "steps": 3}), task, 2, 2, 0)
    assert personal.history.stopped == "one-shot"
    assert classify_frames(personal.model, pixels, 1).tolist() == [0, 0, 1, 1]


def test_a_video_is_what_most_of_its_frames_are():
    judged = score_video(torch.tensor([1, 1, 0, 2, 1]), 1, "v", ["a", "b", "c"])
    assert (judged.frame_accuracy, judged.right, judged.frames, judged.thing) == (0.6, True, 5, "b")
    assert not score_video(
        torch.tensor([0, 0, 1, 1]), 1, "v", ["a", "b"]
    ).right  # of two as frequent the first


def row(user, *videos):
    return {"settings": {"user": user}, "result": {"videos": [["o", "v", 8, f, r] for f, r in videos]}}


def test_intervals_over_videos_and_over_users():
    rows = [row("a", (1.0, True), (0.5, True)), row("a", (0.75, False)), row("b", (0.25, False))]
    found = summarise(rows, "frame")
    scores = [100, 50, 75, 25]
    spread = (sum((s - 62.5) ** 2 for s in scores) / 3) ** 0.5
    assert found.mean == 62.5
    assert found.over_videos == pytest.approx(1.96 * spread / 2)
    assert found.by_user == {"a": 75.0, "b": 25.0}
    assert found.mean_of_users == 50
    assert found.over_users == pytest.approx(1.96 * 50 / 2**0.5 / 2**0.5)
    assert summarise(rows, "video").mean == 50
    assert math.isnan(summarise(rows[:1], "video").over_users)


def test_mistakes_are_said(made, tmp_path):
    with pytest.raises(UsageError, match="Simple CNAPs has not been trained"):
        evaluate_task({**SETTINGS, "head": "mahalanobis", "train": "none"}, made)
    with pytest.raises(UsageError, match="head cannot be 'lad'"):
        evaluate_task({**SETTINGS, "head": "lad"}, made)
    root = shutil.copytree(made, tmp_path / "torn")
    for frame in root.glob("test/P001/*/clutter/*/*.jpg"):
        frame.write_bytes(b"torn")
    with pytest.raises(InputError, match="no video that is asked for can be read"):
        evaluate_task({**SETTINGS, "head": "protonets", "train": "none"}, root)
