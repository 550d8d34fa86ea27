"""Each adapter against its equation, written in another way."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from filmtransfer.adapters import lora
from filmtransfer.adapters.adapter import quick_gelu
from filmtransfer.backbones import build, record_for
from filmtransfer.backbones.frozen import standardise_weights
from filmtransfer.errors import InputError

from .small import attach_adapter, images, perturb, trainable, transformer

TOLERANCE = 1e-10


@pytest.mark.parametrize("scale", [1.0, 0.3])
@torch.no_grad()
def test_lora_equals_the_merged_weight(scale):
    network = attach_adapter(transformer(), "lora", rank=4, scale=scale)
    perturb(network)
    parameters, merged = trainable(network), transformer()
    for i, block in enumerate(merged.blocks):
        down, up = (parameters[f"blocks.{i}.attn.qkv.lora_{m}.default.weight"] for m in "AB")
        assert down.shape == (4, 24)
        block.attn.qkv.weight += scale * up @ down
    assert (network(images()) - merged(images())).abs().max() < TOLERANCE


@pytest.mark.slow
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
def test_lora_on_convnets_equals_the_merged_weight(name):
    def make() -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            network = build(record_for(name))
            for key, parameter in network.named_parameters():
                if parameter.ndim == 1 and not key.endswith(
                    "bias"
                ):  # otherwise the blocks add nearly nothing
                    nn.init.uniform_(parameter, 0.5, 1.5)
        return network.double()

    x = images()
    bare, network, merged = make()(x), make(), make()
    targets = lora.targets(network)
    if "bit" in name:  # weights are standardised in every forward pass
        standardise_weights(network)
        standardise_weights(merged)
        bare = merged(x)
    attach_adapter(network, "lora")
    assert (network(x) - bare).abs().max() < TOLERANCE * bare.abs().max()
    perturb(network)
    parameters = trainable(network)
    assert {key.rpartition(".lora_")[0] for key in parameters} == set(targets)
    for target in targets:
        down, up = (parameters[f"{target}.lora_{m}.default.weight"].flatten(1) for m in "AB")
        weight = merged.get_submodule(target).weight
        weight += (up @ down).reshape(weight.shape)
    features = merged(x)
    assert (network(x) - features).abs().max() < 1e-8 * features.abs().max()
    assert (features - bare).abs().max() > 1e-3 * bare.abs().max()


def test_lora_adapts_pointwise_convolutions():
    with torch.device("meta"):
        names = lora.targets(build(record_for("efficientnet_lite0")))
    assert names[:3] == ["blocks.0.0.conv_pw", "blocks.1.0.conv_pw", "blocks.1.0.conv_pwl"]
    assert len(names) == 31
    assert not any("dw" in name or "head" in name or "stem" in name for name in names)


@torch.no_grad()
def test_vpt_equals_explicit_concatenation():
    network = attach_adapter(transformer(), "vpt", prompts=7)
    perturb(network)
    bare, parameters = transformer(), trainable(network)
    x = bare._pos_embed(bare.patch_embed(images()))
    for i, block in enumerate(bare.blocks):  # after the class token, as in the paper
        prompts = parameters[f"blocks.{i}.prompts"].expand(5, -1, -1)
        x = torch.cat([x[:, :1], prompts, x[:, 1:]], dim=1)
        x = block(x)
        x = torch.cat([x[:, :1], x[:, 8:]], dim=1)
    assert (network(images()) - bare.norm(x)[:, 0]).abs().max() < TOLERANCE


@torch.no_grad()
def test_initial_prompts_are_within_their_bound():
    bound = math.sqrt(6 / (3 * 16 * 16 + 24))
    values = torch.cat([p.flatten() for p in trainable(attach_adapter(transformer(), "vpt")).values()])
    assert values.abs().max() <= bound
    assert values.std() == pytest.approx(bound / math.sqrt(3), rel=0.05)


def attention_and_mlp(block: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the input of a block's MLP branch, and the output of the MLP."""
    x = x + block.attn(block.norm1(x))
    return x, block.mlp(block.norm2(x))


@pytest.mark.parametrize("scale", [1.0, 0.3])
@torch.no_grad()
def test_adapter_equals_its_equation(scale):
    network = attach_adapter(transformer(), "adapter", size=5, scale=scale)
    perturb(network)
    bare, parameters = transformer(), trainable(network)
    x = bare._pos_embed(bare.patch_embed(images()))
    for i, block in enumerate(bare.blocks):
        x, h = attention_and_mlp(block, x)
        d, db, u, ub = (
            parameters[f"blocks.{i}.mlp.adapter.{k}"] for k in ("down", "down_bias", "up", "up_bias")
        )
        hidden = h @ d.T + db
        x = x + h + scale * ((hidden * torch.sigmoid(1.702 * hidden)) @ u.T + ub)
    assert (network(images()) - bare.norm(x)[:, 0]).abs().max() < TOLERANCE


@torch.no_grad()
def test_adaptformer_equals_its_equation():
    network = attach_adapter(transformer(), "adaptformer", size=5)
    perturb(network)
    bare, parameters = transformer(), trainable(network)
    x = bare._pos_embed(bare.patch_embed(images()))
    for i, block in enumerate(bare.blocks):
        x, h = attention_and_mlp(block, x)
        d, db, u, ub = (
            parameters[f"blocks.{i}.bottleneck.{k}"] for k in ("down", "down_bias", "up", "up_bias")
        )
        x = x + h + 0.1 * ((x @ d.T + db).clamp(min=0) @ u.T + ub)
    assert (network(images()) - bare.norm(x)[:, 0]).abs().max() < TOLERANCE


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "deit_tiny_distilled_patch16_224"])
@torch.no_grad()
def test_convpass_equals_a_loop_over_images(name):
    network = attach_adapter(transformer(name=name), "convpass", size=3, scale=0.7)
    perturb(network)
    bare, parameters = transformer(name=name), trainable(network)
    prefix = bare.num_prefix_tokens

    def bypass(x: torch.Tensor, layer: str) -> torch.Tensor:
        keys = ("down", "down_bias", "middle", "middle_bias", "up", "up_bias")
        d, db, m, mb, u, ub = (parameters[f"{layer}.bypass.{key}"] for key in keys)
        rows = []
        for image in x:
            hidden = quick_gelu(image @ d.T + db)
            # Each token before the patches is an image of one pixel.
            maps = [token[:, None, None] for token in hidden[:prefix]]
            maps.append(
                torch.stack([torch.stack(list(row)) for row in hidden[prefix:].split(2)]).permute(2, 0, 1)
            )
            convolved = [quick_gelu(F.conv2d(p[None], m, mb, padding=1)[0]) for p in maps]
            tokens = [
                p[:, i, j] @ u.T + ub for p in convolved for i in range(p.shape[1]) for j in range(p.shape[2])
            ]
            rows.append(torch.stack(tokens))
        return torch.stack(rows)

    x = bare._pos_embed(bare.patch_embed(images()))
    for i, block in enumerate(bare.blocks):
        normalised = block.norm1(x)
        x = x + block.attn(normalised) + 0.7 * bypass(normalised, f"blocks.{i}.attn")
        normalised = block.norm2(x)
        x = x + block.mlp(normalised) + 0.7 * bypass(normalised, f"blocks.{i}.mlp")
    assert (network(images()) - bare.forward_head(bare.norm(x))).abs().max() < TOLERANCE


def test_convpass_needs_square_images():
    network = attach_adapter(transformer(), "convpass")
    with pytest.raises(InputError, match="6 patches are not a square image"):
        network(torch.zeros(1, 3, 32, 48, dtype=torch.float64))
