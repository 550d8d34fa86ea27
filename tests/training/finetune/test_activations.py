"""Kept activations change nothing but the time."""

from __future__ import annotations

import pytest
import torch

from filmtransfer.backbones import assemble, build, load_backbone, record_for
from filmtransfer.episodes import episodes
from filmtransfer.errors import InputError, UsageError
from filmtransfer.heads import make_head
from filmtransfer.model import AdaptedModel, Body
from filmtransfer.training.adapt import adapt
from filmtransfer.training.callbacks import Callbacks
from filmtransfer.training.finetune.activations import Activations
from filmtransfer.training.finetune.episodic import finetune
from filmtransfer.training.finetune.gradient import accumulate
from filmtransfer.training.presets import PRESETS


def images(count: int = 12, size: int = 48) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8, generator=generator)


def gradient(model: AdaptedModel, embed) -> torch.Tensor:
    episode = next(episodes(torch.arange(3).repeat(4), "split", 6, 0))
    for parameter in model.trainable_parameters():
        parameter.grad = None
    accumulate(embed, model.head, episode, 4)
    return torch.cat([p.grad.flatten() for p in model.trainable_parameters()])


@pytest.mark.parametrize("stage", [0, 1, 4, 8])
def test_the_same_features_and_gradient(stage):
    model = AdaptedModel(
        load_backbone("efficientnet_lite0"), make_head("lda"), 48, body=Body(film_from=stage)
    )
    with torch.no_grad():
        for i, p in enumerate(model.backbone_parameters().values()):
            p.add_(0.05 * torch.randn(p.shape, generator=torch.Generator().manual_seed(i)))
    pixels = images()
    kept = Activations(model, pixels, 100, batch=5)
    fresh = Activations(model, pixels, 0)
    assert kept.bytes > 0 == fresh.bytes
    torch.testing.assert_close(kept.features(), fresh.features(), rtol=1e-5, atol=1e-5)
    want, got = gradient(model, fresh), gradient(model, kept)
    assert (got - want).norm() <= 1e-5 * want.norm()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnetv2_50x1_bit", "vit_tiny_patch16_224"])
def test_other_families_too(name):
    torch.manual_seed(0)
    backbone = assemble(record_for(name), build(record_for(name)))
    model = AdaptedModel(backbone, make_head("protonets"), 48, body=Body(film_from=2))
    pixels = images(size=model.pixels.size)
    kept, fresh = Activations(model, pixels, 100), Activations(model, pixels, 0)
    want, got = gradient(model, fresh), gradient(model, kept)
    assert (got - want).norm() <= 1e-5 * want.norm()


def test_the_part_below_runs_once(monkeypatch):
    model = AdaptedModel(load_backbone("efficientnet_lite0"), make_head("lda"), 48, body=Body(film_from=5))
    seen = 0
    below = AdaptedModel.below

    def count(self, pixels):
        nonlocal seen
        seen += len(pixels)
        return below(self, pixels)

    monkeypatch.setattr(AdaptedModel, "below", count)
    pixels, labels = images(), torch.arange(3).repeat(4)
    config = PRESETS["fast"].override(steps=3, film_from=5)
    finetune(model, Activations(model, pixels, config.cache_mb), labels, config, seed=0)
    assert seen == len(pixels) + 1, "each image once, and one to see how large it is"


def test_off_when_it_does_not_fit_and_refused_below_one_image():
    model = AdaptedModel(load_backbone("efficientnet_lite0"), make_head("lda"), 48)
    one = 32 * 24 * 24 * 4 / 2**20  # the stem's output
    assert Activations(model, images(), 12 * one).bytes == 12 * one * 2**20
    assert Activations(model, images(), 11.9 * one).bytes == 0
    with pytest.raises(UsageError, match=r"too small for one image, which needs 0\.07 MB") as caught:
        Activations(model, images(), 0.9 * one)
    assert "at least 1 MB" in caught.value.hint
    for wrong in (-1, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="cache_mb"):
            PRESETS["fast"].override(cache_mb=wrong)


def test_a_cache_too_small_for_the_head_is_an_error_before_fine_tuning():
    model = AdaptedModel(load_backbone("efficientnet_lite0"), make_head("lda"), 96)
    config = PRESETS["fast"].override(steps=1, cache_mb=0.1)  # enough at 48 pixels, not at 96
    steps: list[object] = []
    with pytest.raises(UsageError, match="too small for one image"):
        adapt(
            model,
            images(12, 96),
            images(),
            torch.arange(3).repeat(4),
            config,
            seed=0,
            callbacks=Callbacks(on_step=steps.append),
        )
    assert steps == []


def test_one_class_is_no_episode():
    model = AdaptedModel(load_backbone("efficientnet_lite0"), make_head("lda"), 48)
    with pytest.raises(InputError, match="one class"):
        finetune(model, model.embed, torch.zeros(12, dtype=torch.long), PRESETS["fast"], seed=0)
