"""A backbone computed stage by stage gives the same features."""

from __future__ import annotations

import pytest
import torch

from filmtransfer import film
from filmtransfer.backbones import assemble, backbone_facts, build, record_for, run_parts, split_parts, stages
from filmtransfer.errors import UsageError
from filmtransfer.heads import make_head
from filmtransfer.model import AdaptedModel, Body

from .test_sites import ARCHITECTURES

MORE = ("deit_tiny_distilled_patch16_224", "resnetv2_50x1_bit", "mobilenetv3_large_100", "convnext_atto")


@pytest.mark.slow
@pytest.mark.parametrize("name", dict.fromkeys((*ARCHITECTURES, *MORE)))
@torch.no_grad()
def test_running_all_parts_is_the_forward_pass(name):
    torch.manual_seed(0)
    network = build(record_for(name))
    side = 56 if "patch14" in name else 64
    x = torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(0))
    expected = network(x)
    parts = [part for stage in stages(network) for part in stage.parts]
    assert torch.equal(run_parts(network, parts, x), expected)
    sites = backbone_facts(name).site_names
    for stage in range(len(stages(network))):
        try:
            trainable = backbone_facts(name).sites_from(stage)
        except UsageError:
            continue
        below, above = split_parts(network, trainable)
        assert [*below, *above] == parts
        assert torch.equal(run_parts(network, above, run_parts(network, below, x)), expected)
        modules = [part for part in below if "." in part or part in dict(network.named_children())]
        frozen = [site for part in modules for site in sites if site == part or site.startswith(f"{part}.")]
        assert not set(frozen) & set(trainable), "nothing below the cut is trainable"


def test_every_site_is_in_one_stage():
    for name in ("efficientnet_lite0", "bit_m_r50x1", "vit_b16", "convnext_tiny", "regnety_008"):
        facts = backbone_facts(name)
        assert facts.film_parameters_from(0) == facts.film_parameters
        last = max(map(facts.stage_of, facts.site_names))
        counts = [facts.film_parameters_from(k) for k in range(last + 1)]
        assert counts == sorted(counts, reverse=True)
        assert counts[-1] > 0
    facts = backbone_facts("efficientnet_lite0")
    assert [facts.film_parameters_from(k) for k in (0, 3, 8)] == [20_544, 19_936, 2_560]


@pytest.mark.parametrize("stage", [-1, 9, 100])
def test_a_stage_that_does_not_exist(stage):
    with pytest.raises(UsageError, match=f"cannot begin at stage {stage}") as caught:
        backbone_facts("efficientnet_lite0").sites_from(stage)
    assert "0 to 8" in caught.value.hint
    assert "3 blocks.2" in caught.value.hint


def test_film_from_trains_only_the_later_stages():
    backbone = assemble(record_for("resnet18"), build(record_for("resnet18")))
    model = AdaptedModel(backbone, make_head("lda"), 64, body=Body(film_from=3))
    pixels = torch.randint(0, 256, (4, 3, 64, 64), dtype=torch.uint8)
    model.embed(pixels).sum().backward()
    for site, layer in film.layers(model.network).items():
        trained = site.startswith(("layer3", "layer4"))
        assert (
            (f"{site}.gamma" in model.backbone_parameters())
            == (f"{site}.beta" in model.backbone_parameters())
            == trained
        )
        assert (layer.gamma.grad is not None) == trained
        assert layer.gamma.requires_grad == trained
    assert len(model.trainable_parameters()) == len(model.backbone_parameters()) + 1
    count = sum(p.numel() for p in model.backbone_parameters().values())
    assert count == backbone_facts("resnet18").film_parameters_from(3)
