"""The interpolation factor: held-out images are never trained on, the ends are exact, the best factor is chosen."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from filmtransfer import film
from filmtransfer.backbones import load_backbone
from filmtransfer.episodes import hold_out
from filmtransfer.heads import make_head
from filmtransfer.model import AdaptedModel
from filmtransfer.seeding import make_generator
from filmtransfer.training.adapt import adapt
from filmtransfer.training.finetune.activations import Activations
from filmtransfer.training.finetune.interpolation import (
    ALPHAS,
    best_alpha,
    choose_alpha,
    interpolate,
    snapshot,
)
from filmtransfer.training.presets import PRESETS


@given(st.lists(st.integers(1, 20), min_size=2, max_size=8), st.integers(0, 99))
def test_a_quarter_of_each_large_enough_class_is_held_out(counts, seed):
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    fit, held = hold_out(labels, 0.25, make_generator(seed))
    assert torch.equal(torch.cat([fit, held]).sort().values, torch.arange(len(labels)))
    for c, count in enumerate(counts):
        count_held = int((labels[held] == c).sum())
        assert count_held == (max(1, round(count / 4)) if count >= 4 else 0)


@pytest.fixture(scope="module")
def model() -> AdaptedModel:
    return AdaptedModel(load_backbone("efficientnet_lite0"), make_head("lda"), 48)


@pytest.fixture(scope="module")
def images() -> tuple[torch.Tensor, torch.Tensor]:
    labels = torch.arange(3).repeat(8)
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 160, (24, 3, 48, 48), dtype=torch.uint8, generator=generator)
    pixels[torch.arange(24), labels] += 80  # each class has a colour
    return pixels, labels


def test_the_ends_are_exact(model):
    start = snapshot(model)
    end = [p + torch.randn(p.shape, generator=torch.Generator().manual_seed(1)) for p in start]
    for alpha, want in (
        (0.0, start),
        (1.0, end),
        (0.5, [(a + b) / 2 for a, b in zip(start, end, strict=True)]),
    ):
        interpolate(model, start, end, alpha)
        assert all(
            torch.allclose(p, w, atol=1e-6) for p, w in zip(model.trainable_parameters(), want, strict=True)
        )
        if alpha != 0.5:
            assert all(torch.equal(p, w) for p, w in zip(model.trainable_parameters(), want, strict=True))
    interpolate(model, start, start, 0.0)


def test_a_ruinous_way_is_not_taken(model, images):
    """An end that destroys the features must lose against the start."""
    pixels, labels = images
    film.reset(model.network)
    start = snapshot(model)
    generator = torch.Generator().manual_seed(2)
    end = [p + 3 * torch.randn(p.shape, generator=generator) for p in start[:-1]] + [start[-1].clone()]
    fit, held = hold_out(labels, 0.25, make_generator(0))
    choice = choose_alpha(model, start, end, Activations(model, pixels, 0), labels, fit, held)
    assert choice.alpha == 0.0
    assert set(choice.scores) == set(ALPHAS)
    assert all(torch.equal(p, s) for p, s in zip(model.trainable_parameters(), start, strict=True))
    assert torch.equal(choice.features, model.features(pixels))


def test_another_factor_than_a_half_has_to_be_clearly_better():
    half = torch.linspace(0.2, 0.8, 20).double()
    noise = 0.1 * torch.randn(20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert best_alpha({0.0: half, 0.5: half, 1.0: half}) == 0.5
    assert best_alpha({0.0: half - 0.1, 0.5: half, 1.0: half + 0.005 + noise - noise.mean()}) == 0.5
    assert best_alpha({0.0: half - 0.1, 0.5: half, 1.0: half + 0.1}) == 1.0
    assert best_alpha({0.0: half + 0.1, 0.5: half, 1.0: half + 0.05}) == 0.0
    assert best_alpha({0.0: half[:1] + 0.1, 0.5: half[:1], 1.0: half[:1]}) == 0.5, "one image says nothing"


def test_ctrl_c_while_the_factor_is_chosen_keeps_what_was_trained(model, images, monkeypatch):
    pixels, labels = images

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("filmtransfer.training.adapt.choose_alpha", interrupt)
    film.reset(model.network)
    adapted = adapt(model, pixels, pixels, labels, PRESETS["fast"].override(steps=2), seed=0)
    assert (adapted.history.stopped, adapted.alpha) == ("interrupted", 0.5)
    assert any(bool((layer.gamma != 1).any()) for layer in film.layers(model.network).values())


@pytest.mark.parametrize("head", ["lda", "qda", "protonets", "linear"])
@pytest.mark.parametrize("preset", ["fast", "paper"])
def test_a_learning_rate_that_is_far_too_high_leaves_finite_parameters(head, preset, images):
    pixels, labels = images
    fresh = AdaptedModel(load_backbone("efficientnet_lite0"), make_head(head), 48)
    config = PRESETS[preset].override(steps=4, learning_rate=1e8)
    adapted = adapt(fresh, pixels, pixels, labels, config, seed=0)
    assert bool(torch.isfinite(adapted.features).all())
    assert fresh.head.is_finite()
    assert all(bool(torch.isfinite(p).all()) for p in fresh.trainable_parameters())


def test_held_out_images_never_reach_the_gradient(model, images, monkeypatch):
    pixels, labels = images
    config = PRESETS["fast"].override(steps=3)
    _, held = hold_out(labels, config.hold_out, make_generator(7, "hold out"))
    seen: set[bytes] = set()
    embed = Activations.__call__

    def spy(self, indices):
        if torch.is_grad_enabled():
            seen.update(self.pixels[i].numpy().tobytes() for i in indices)
        return embed(self, indices)

    monkeypatch.setattr(Activations, "__call__", spy)
    film.reset(model.network)
    adapted = adapt(model, pixels, pixels, labels, config, seed=7)
    assert seen
    assert not seen & {pixels[i].numpy().tobytes() for i in held}
    assert adapted.results()["share"] in ALPHAS
    assert int(model.head.counts.sum()) == len(labels), "the head is built from all images"


def test_without_enough_images_the_factor_is_a_half_and_in_the_paper_one(model, images):
    pixels, labels = images
    few = torch.cat([torch.nonzero(labels == c).flatten()[:2] for c in range(3)])
    for preset, alpha in (("fast", 0.5), ("paper", 1.0)):
        film.reset(model.network)
        config = PRESETS[preset].override(steps=2)
        adapted = adapt(model, pixels[few], pixels[few], labels[few], config, seed=0)
        assert adapted.alpha == alpha
        assert adapted.scores == {}
