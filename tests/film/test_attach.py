"""FiLM in every backbone family: identity at the start, folding, per-image parameters and rejected values."""

from __future__ import annotations

import copy

import pytest
import torch

from filmtransfer import film
from filmtransfer.backbones import build, film_sites, record_for
from filmtransfer.errors import InputError, UpdateFileError

# One of each family, small enough to run at 64 pixels (ViT at 32).
FAMILIES = {
    "resnetv2": "resnetv2_50x1_bit",
    "resnet": "resnet18",
    "resnet-bottleneck": "resnet26",
    "efficientnet": "tf_efficientnet_lite0",
    "efficientnetv2": "tf_efficientnetv2_b0",
    "mobilenetv2": "mobilenetv2_050",
    "mobilenetv3": "mobilenetv3_small_050",
    "convnext": "convnext_atto",
    "convnext-conv": "convnextv2_atto",
    "regnet": "regnetx_002",
    "vit": "vit_tiny_patch16_224",
    "deit": "deit_tiny_patch16_224",
    "dinov2": "vit_small_patch14_dinov2",
}


def make(name: str) -> torch.nn.Module:
    torch.manual_seed(0)  # timm draws its random weights from the global generator
    model = build(record_for(name))
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):  # statistics as after training, not 0 and 1
            torch.nn.init.normal_(module.running_mean, 0, 0.1)
            torch.nn.init.uniform_(module.running_var, 0.5, 1.5)
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.normal_(module.bias, 0, 0.1)
    return model


def images(name: str, count: int = 3) -> torch.Tensor:
    side = 56 if "patch14" in name else 64
    return torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(1))


def random_parameters(backbone: torch.nn.Module, seed: int) -> film.FilmParameters:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: value + 0.1 * torch.randn(value.shape, generator=generator)
        for name, value in film.read(backbone).items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES.values(), ids=FAMILIES.keys())
@torch.no_grad()
def test_every_family(name):
    backbone = make(name)
    x = images(name)
    bare = backbone(x)
    film.attach(backbone, film_sites(backbone))
    assert torch.equal(backbone(x), bare), "FiLM with γ = 1, β = 0 is the backbone bit for bit"

    first = random_parameters(backbone, 1)
    film.load(backbone, first)
    adapted = backbone(x)
    assert not torch.allclose(adapted, bare)
    assert all(torch.equal(film.read(backbone)[k], v) for k, v in first.items())

    second = random_parameters(backbone, 2)
    film.load(backbone, second)
    adapted_by_second = backbone(x)
    with film.per_sample(backbone, [first, second, first]):
        mixed = backbone(x)
    scale = adapted.abs().max()
    assert (mixed[0] - adapted[0]).abs().max() < 1e-5 * scale
    assert (mixed[1] - adapted_by_second[1]).abs().max() < 1e-5 * scale
    assert torch.equal(backbone(x), adapted_by_second), "per-image parameters end with the context"

    last_sites = list(film.layers(backbone))[-2:]  # an update with FiLM at the last sites only
    partial = film.read(backbone, last_sites)
    assert len(partial) == 4
    with film.per_sample(backbone, [partial, second, partial]):
        mixed = backbone(x)
    film.load(backbone, partial, last_sites)
    assert (mixed[0] - backbone(x)[0]).abs().max() < 1e-5 * scale
    film.load(backbone, second)

    folded = film.fold(copy.deepcopy(backbone))
    assert film.layers(folded) == {}
    assert torch.equal(folded(x), adapted_by_second), "folding changes no bit"

    film.reset(backbone)
    assert torch.equal(backbone(x), bare)


def test_every_site_has_a_gradient_and_the_backbone_none():
    backbone = make("tf_efficientnet_lite0")
    film.attach(backbone, film_sites(backbone))
    backbone(images("x")).square().sum().backward()
    for site, layer in film.layers(backbone).items():
        assert layer.gamma.grad is not None, site
        assert layer.gamma.grad.abs().sum() > 0, site
        assert layer.beta.grad.abs().sum() > 0, site
    others = [p for n, p in backbone.named_parameters() if not n.endswith((".gamma", ".beta"))]
    assert all(p.grad is None for p in others), "the backbone is frozen"


def test_attaching_twice_changes_nothing_and_keeps_film_trainable():
    backbone = make("resnet18")
    sites = film_sites(backbone)
    film.attach(backbone, sites)
    film.attach(backbone, sites)
    assert list(film.layers(backbone)) == sites
    assert all(p.requires_grad for p in film.parameters(backbone))
    assert film.count(backbone) == 4864


def test_invalid_parameters_are_rejected_and_nothing_changes():
    backbone = make("resnet18")
    film.attach(backbone, film_sites(backbone))
    valid = film.read(backbone)
    first = next(iter(valid))
    with pytest.raises(UpdateFileError, match="another backbone"):
        film.load(backbone, {k: v for k, v in valid.items() if k != first})
    with pytest.raises(UpdateFileError, match="shape"):
        film.load(backbone, valid | {first: torch.ones(3)})
    with pytest.raises(UpdateFileError, match="finite"):
        film.load(backbone, valid | {first: torch.full_like(valid[first], float("nan"))})
    assert all(torch.equal(film.read(backbone)[k], v) for k, v in valid.items())


def test_a_batch_needs_one_row_per_image():
    backbone = make("resnet18")
    film.attach(backbone, film_sites(backbone))
    with (
        pytest.raises(InputError, match="one row per image"),
        film.per_sample(backbone, [film.read(backbone)]),
    ):
        backbone(images("resnet18"))


def test_parameters_of_another_backbone_are_rejected():
    backbone = make("resnet18")
    film.attach(backbone, film_sites(backbone))
    with (
        pytest.raises(InputError, match="another backbone"),
        film.per_sample(backbone, [{"x.gamma": torch.ones(3)}]),
    ):
        pass
