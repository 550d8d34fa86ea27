"""Each adapter against its equation written out another way."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from filmtransfer.adapters import lora
from filmtransfer.adapters.bottleneck import quick_gelu
from filmtransfer.backbones import build, record_for
from filmtransfer.backbones.frozen import standardise_weights
from filmtransfer.errors import InputError

from .small import attached, disturb, images, learned, transformer

CLOSE = 1e-10


@pytest.mark.parametrize("scale", [1.0, 0.3])
@torch.no_grad()
def test_lora_is_the_merged_weight(scale):
    network = attached(transformer(), "lora", rank=4, scale=scale)
    disturb(network)
    numbers, merged = learned(network), transformer()
    for i, block in enumerate(merged.blocks):
        down, up = (numbers[f"blocks.{i}.attn.qkv.lora_{m}.default.weight"] for m in "AB")
        assert down.shape == (4, 24)
        block.attn.qkv.weight += scale * up @ down
    assert (network(images()) - merged(images())).abs().max() < CLOSE


@pytest.mark.parametrize(
    "name",
    [
        "tf_efficientnet_lite0",
        "resnet18",
        "resnetv2_50x1_bit",
        "mobilenetv3_small_050",
        "convnext_atto",
        "regnety_002",
    ],
)
@torch.no_grad()
def test_lora_on_convnets_is_the_merged_weight(name):
    def make() -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            network = build(record_for(name))
            for key, parameter in network.named_parameters():
                if parameter.ndim == 1 and not key.endswith("bias"):  # or new blocks add nearly nothing
                    nn.init.uniform_(parameter, 0.5, 1.5)
        return network.double()

    x = images()
    bare, network, merged = make()(x), make(), make()
    targets = lora.targets(network)
    if "bit" in name:  # standardised weights are made anew in every pass
        standardise_weights(network)
        standardise_weights(merged)
        bare = merged(x)
    attached(network, "lora")
    assert (network(x) - bare).abs().max() < CLOSE * bare.abs().max()
    disturb(network)
    numbers = learned(network)
    assert {key.rpartition(".lora_")[0] for key in numbers} == set(targets)
    for target in targets:
        down, up = (numbers[f"{target}.lora_{m}.default.weight"].flatten(1) for m in "AB")
        weight = merged.get_submodule(target).weight
        weight += (up @ down).reshape(weight.shape)
    features = merged(x)
    assert (network(x) - features).abs().max() < 1e-8 * features.abs().max()
    assert (features - bare).abs().max() > 1e-3 * bare.abs().max()


def test_lora_stands_on_pointwise_convolutions():
    with torch.device("meta"):
        names = lora.targets(build(record_for("efficientnet_lite0")))
    assert names[:3] == ["blocks.0.0.conv_pw", "blocks.1.0.conv_pw", "blocks.1.0.conv_pwl"]
    assert len(names) == 31
    assert not any("dw" in name or "head" in name or "stem" in name for name in names)


@torch.no_grad()
def test_vpt_is_concatenation_by_hand():
    network = attached(transformer(), "vpt", prompts=7)
    disturb(network)
    bare, numbers = transformer(), learned(network)
    x = bare._pos_embed(bare.patch_embed(images()))
    for i, block in enumerate(bare.blocks):  # behind the class token, as in the paper
        prompts = numbers[f"blocks.{i}.prompts"].expand(5, -1, -1)
        x = torch.cat([x[:, :1], prompts, x[:, 1:]], dim=1)
        x = block(x)
        x = torch.cat([x[:, :1], x[:, 8:]], dim=1)
    assert (network(images()) - bare.norm(x)[:, 0]).abs().max() < CLOSE


@torch.no_grad()
def test_vpt_begins_within_its_bound():
    bound = math.sqrt(6 / (3 * 16 * 16 + 24))
    values = torch.cat([p.flatten() for p in learned(attached(transformer(), "vpt")).values()])
    assert values.abs().max() <= bound
    assert values.std() == pytest.approx(bound / math.sqrt(3), rel=0.05)


def halves(block: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A bare block up to its MLP, and what the MLP gives."""
    x = x + block.attn(block.norm1(x))
    return x, block.mlp(block.norm2(x))


@pytest.mark.parametrize("scale", [1.0, 0.3])
@torch.no_grad()
def test_adapter_is_its_equation(scale):
    network = attached(transformer(), "adapter", size=5, scale=scale)
    disturb(network)
    bare, numbers = transformer(), learned(network)
    x = bare._pos_embed(bare.patch_embed(images()))
    for i, block in enumerate(bare.blocks):
        x, h = halves(block, x)
        d, db, u, ub = (
            numbers[f"blocks.{i}.mlp.adapter.{k}"] for k in ("down", "down_bias", "up", "up_bias")
        )
        inside = h @ d.T + db
        x = x + h + scale * ((inside * torch.sigmoid(1.702 * inside)) @ u.T + ub)
    assert (network(images()) - bare.norm(x)[:, 0]).abs().max() < CLOSE


@torch.no_grad()
def test_adaptformer_is_its_equation():
    network = attached(transformer(), "adaptformer", size=5)
    disturb(network)
    bare, numbers = transformer(), learned(network)
    x = bare._pos_embed(bare.patch_embed(images()))
    for i, block in enumerate(bare.blocks):
        x, h = halves(block, x)
        d, db, u, ub = (numbers[f"blocks.{i}.bottleneck.{k}"] for k in ("down", "down_bias", "up", "up_bias"))
        x = x + h + 0.1 * ((x @ d.T + db).clamp(min=0) @ u.T + ub)
    assert (network(images()) - bare.norm(x)[:, 0]).abs().max() < CLOSE


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "deit_tiny_distilled_patch16_224"])
@torch.no_grad()
def test_convpass_is_a_loop_over_images(name):
    network = attached(transformer(name=name), "convpass", size=3, scale=0.7)
    disturb(network)
    bare, numbers = transformer(name=name), learned(network)
    prefix = bare.num_prefix_tokens

    def bypass(x: torch.Tensor, where: str) -> torch.Tensor:
        keys = ("down", "down_bias", "middle", "middle_bias", "up", "up_bias")
        d, db, m, mb, u, ub = (numbers[f"{where}.bypass.{key}"] for key in keys)
        rows = []
        for image in x:
            inside = quick_gelu(image @ d.T + db)
            # Each token before the patches is an image of one pixel.
            maps = [token[:, None, None] for token in inside[:prefix]]
            maps.append(
                torch.stack([torch.stack(list(row)) for row in inside[prefix:].split(2)]).permute(2, 0, 1)
            )
            done = [quick_gelu(F.conv2d(p[None], m, mb, padding=1)[0]) for p in maps]
            tokens = [
                p[:, i, j] @ u.T + ub for p in done for i in range(p.shape[1]) for j in range(p.shape[2])
            ]
            rows.append(torch.stack(tokens))
        return torch.stack(rows)

    x = bare._pos_embed(bare.patch_embed(images()))
    for i, block in enumerate(bare.blocks):
        inside = block.norm1(x)
        x = x + block.attn(inside) + 0.7 * bypass(inside, f"blocks.{i}.attn")
        inside = block.norm2(x)
        x = x + block.mlp(inside) + 0.7 * bypass(inside, f"blocks.{i}.mlp")
    assert (network(images()) - bare.forward_head(bare.norm(x))).abs().max() < CLOSE


def test_convpass_needs_squares():
    network = attached(transformer(), "convpass")
    with pytest.raises(InputError, match="6 patches are not a square image"):
        network(torch.zeros(1, 3, 32, 48, dtype=torch.float64))
