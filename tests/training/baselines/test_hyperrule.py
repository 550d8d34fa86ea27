"""BiT-HyperRule against its published figures (see the sources in hyperrule.py)."""

from __future__ import annotations

import pytest
import torch

from filmtransfer.training.baselines.batch import _batches
from filmtransfer.training.baselines.hyperrule import HyperRule, mixup, resolution, schedule
from filmtransfer.training.presets import preset


@pytest.mark.parametrize(
    ("images", "steps", "alpha"),
    [
        (100, 500, 0.0),
        (19_999, 500, 0.0),
        (20_000, 10_000, 0.1),
        (499_999, 10_000, 0.1),
        (500_000, 20_000, 0.1),
    ],
)
def test_length_and_mixup_by_the_number_of_images(images, steps, alpha):
    assert schedule(images)[-1] == steps
    assert mixup(images) == alpha


@pytest.mark.parametrize(
    ("side", "sizes"),
    [((32, 32), (160, 128)), ((95, 96), (160, 128)), ((96, 96), (512, 480)), ((300, 400), (512, 480))],
)
def test_resolution_by_the_size_of_the_images(side, sizes):
    assert resolution(*side) == sizes


def test_the_rate_warms_up_then_falls_tenfold_three_times():
    rule = HyperRule(images=1000, steps=500)
    published = {0: 0.0, 50: 0.0015, 100: 0.003, 200: 0.003, 201: 3e-4, 301: 3e-5, 401: 3e-6, 499: 3e-6}
    assert {step: rule.learning_rate_at(step) for step in published} == pytest.approx(published)
    shorter = HyperRule(images=1000, steps=50)
    assert [shorter.learning_rate_at(step // 10) for step in (0, 50, 100, 250, 350, 450)] == pytest.approx(
        [rule.learning_rate_at(step) for step in (0, 50, 100, 250, 350, 450)]
    )


def test_momentum_batch_and_no_weight_decay():
    rule = HyperRule(images=1000, steps=500)
    group = rule.optimiser([torch.nn.Parameter(torch.zeros(1))]).param_groups[0]
    assert (group["lr"], group["momentum"], group["weight_decay"], rule.batch) == (0.003, 0.9, 0, 512)


def test_a_batch_larger_than_the_set_is_drawn_with_replacement():
    rule = HyperRule(images=20, steps=1, crop=8)
    pixels = torch.zeros(20, 3, 8, 8, dtype=torch.uint8)
    batch = next(_batches(pixels, rule, torch.Generator().manual_seed(0))).indices
    assert len(batch) == 512
    assert set(batch.tolist()) == set(range(20))
    many = next(_batches(pixels[:1].expand(1000, -1, -1, -1), rule, torch.Generator().manual_seed(0))).indices
    assert len(many.unique()) == 512, "without replacement where the set is larger"


def test_crops_and_mirror_images_are_parts_of_the_square():
    pixels = torch.arange(160 * 160).reshape(1, 1, 160, 160).expand(64, 3, 160, 160).to(torch.int32)
    out = HyperRule(images=10, steps=1, crop=128).augment(pixels, torch.Generator().manual_seed(0))
    assert out.shape == (64, 3, 128, 128)
    corners, mirrored = set(), 0
    for square in out[:, 0]:
        flipped = bool(square[0, 0] > square[0, 1])
        square = square.flip(-1) if flipped else square
        top, left = divmod(int(square[0, 0]), 160)
        assert torch.equal(square, pixels[0, 0, top : top + 128, left : left + 128])
        corners.add((top, left))
        mirrored += flipped
    assert len(corners) > 32
    assert 10 < mirrored < 54


def test_the_preset_is_the_published_rule():
    bit = preset("bit")
    assert (bit.size_for(32), bit.train_size_for(32)) == (128, 160)
    assert (bit.size_for(95), bit.size_for(96), bit.train_size_for(96)) == (128, 480, 512)
    assert (bit.train, bit.batch, bit.learning_rate) == ("all", 512, 0.003)
