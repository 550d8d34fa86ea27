"""FiLM sites of every backbone family."""

from __future__ import annotations

import pytest
import torch

from filmtransfer import backbones, film
from filmtransfer.backbones import CATALOGUE, assemble, backbone_facts, build, record_for


@pytest.mark.parametrize("name", list(CATALOGUE))
def test_sites_exist_once_and_in_order(name):
    with torch.device("meta"):
        model = build(record_for(name))
    sites = backbones.film_sites(model)
    assert len(sites) == len(set(sites)) == len(backbone_facts(name).site_names)
    assert all(hasattr(model.get_submodule(site), "weight") for site in sites)


# Small architectures of every family, including timm's unusual ones.
ARCHITECTURES = (
    "mobilenetv3_small_050", "mobilenetv4_conv_small", "convnext_atto", "resnetv2_50x1_bit", "resnetv2_18",
    "resnetv2_50d_gn", "regnetx_002", "resnet18", "vit_small_patch14_dinov2", "deit_tiny_distilled_patch16_224",
    "tf_efficientnet_lite0", "mobilenetv2_050", "vit_tiny_patch16_224", "efficientnet_b0",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_family_gives_features_and_film_gradients(name):
    from filmtransfer.episodes import episodes
    from filmtransfer.heads import make_head
    from filmtransfer.model import AdaptedModel
    from filmtransfer.training.finetune.gradient import accumulate

    torch.manual_seed(0)
    backbone = assemble(record_for(name), build(record_for(name)))
    model = AdaptedModel(backbone, make_head("lda"), 64)
    size = model.pixels.size
    pixels = torch.randint(
        0, 256, (8, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    assert model.features(pixels[:2]).shape == (2, backbone.features) == (2, backbone_facts(name).features)
    episode = next(episodes(torch.arange(2).repeat(4), "split", 8, 0))
    accumulate(lambda i: model.embed(pixels[i]), model.head, episode, 8)
    film_layers = film.layers(model.network)
    assert len(film_layers) == len(backbone_facts(name).site_names) > 4
    assert all(layer.beta.grad is not None for layer in film_layers.values())
