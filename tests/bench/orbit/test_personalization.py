"""A user's model by each method of the paper's table, on a small dataset in ORBIT's layout."""

from __future__ import annotations

import shutil

import pytest
import torch

from filmtransfer.backbones import backbone_facts
from filmtransfer.bench.orbit.evaluation import classify_frames, evaluate_task
from filmtransfer.bench.orbit.personalization import personalize, prepare_method
from filmtransfer.bench.orbit.sample import OrbitSample
from filmtransfer.bench.orbit.tasks import SupportClips
from filmtransfer.errors import InputError, UsageError

SETTINGS = {
    "user": "P001", "videos": "clutter", "task": 0, "seed": 0, "backbone": "efficientnet_lite0", "preset": "orbit_b0",
    "image_size": 32, "clip_length": 2, "clips_per_video": 2, "method": "x",
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("orbit")
    return OrbitSample(users=1, objects=2, clean=3, clutter=1, frames=6, size=32).write(folder)


def test_fit_is_reproducible_and_counts_film(made):
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
        assert (method.config.steps, method.config.learning_rate) == (50, rate)
        assert method.size == method.read_size == 224


@pytest.mark.parametrize(("head", "own"), [("linear", 1281 * 2), ("protonets", 1280 * 2), ("lda", 1281 * 2)])
def test_methods_with_a_frozen_backbone(made, head, own):
    result = evaluate_task({**SETTINGS, "head": head, "train": "none"}, made)
    assert (result["steps"], result["numbers"]) == (0, own)
    assert result["shared"] == backbone_facts("efficientnet_lite0").parameters


def test_bit_trains_all_weights(made):
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
    predicted = classify_frames(personal.model, pixels[:8], 2)
    assert predicted.tolist() == [0] * 8


def test_one_clip_of_each_object_is_a_head_without_fine_tuning():
    pixels = torch.zeros(4, 3, 32, 32, dtype=torch.uint8)
    pixels[2:] = 200
    task = SupportClips(pixels, torch.tensor([0, 1]), torch.tensor([0, 1]))
    personal = personalize(prepare_method({**SETTINGS, "head": "lda", "steps": 3}), task, 2, 2, 0)
    assert personal.history.stopped == "one-shot"
    assert classify_frames(personal.model, pixels, 1).tolist() == [0, 0, 1, 1]


def test_invalid_heads_and_unreadable_videos(made, tmp_path):
    with pytest.raises(UsageError, match="head cannot be 'lad'"):
        evaluate_task({**SETTINGS, "head": "lad"}, made)
    root = shutil.copytree(made, tmp_path / "torn")
    for frame in root.glob("test/P001/*/clutter/*/*.jpg"):
        frame.write_bytes(b"torn")
    with pytest.raises(InputError, match="no query video can be read"):
        evaluate_task({**SETTINGS, "head": "protonets", "train": "none"}, root)
