"""Properties of every adapter: parameter count, initial features, trainable parameters, storing and options."""

from __future__ import annotations

import copy
import dataclasses
import json
import sys

import pytest
import torch

from filmtransfer import adapters
from filmtransfer.backbones import build, load_backbone, record_for
from filmtransfer.errors import MissingExtraError, UsageError
from filmtransfer.heads import LDA

from .small import attach_adapter, images, perturb, run_stages, trainable, transformer

PARAMETERS = {
    "film": 38_400,
    "lora": 294_912,
    "vpt": 460_800,
    "adapter": 156_768,
    "adaptformer": 156_768,
    "convpass": 327_552,
    "noah": 431_686,
}
ALL = pytest.mark.parametrize("name", adapters.ADAPTERS)
WITHOUT_PROMPTS = pytest.mark.parametrize(
    "name", [name for name in adapters.ADAPTERS if name not in ("vpt", "noah")]
)


@pytest.mark.slow
@ALL
def test_parameter_count_on_vit_b16(name):
    with torch.device("meta"):
        network = build(record_for("vit_b16"))
    attach_adapter(network, name)
    assert sum(p.numel() for p in trainable(network).values()) == PARAMETERS[name]
    assert not any(module.training for module in network.modules())


def test_parameter_counts_are_those_of_the_paper():
    millions = {"vpt": 0.5, "adapter": 0.2, "adaptformer": 0.2, "lora": 0.3, "noah": 0.4, "convpass": 0.3}
    assert {name: round(PARAMETERS[name] / 1e6, 1) for name in millions} == millions


@WITHOUT_PROMPTS
@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@torch.no_grad()
def test_initial_features_are_those_of_the_backbone(name, dtype, close):
    network = transformer(dtype=dtype)
    x = images(dtype=dtype)
    bare = network(x)
    attach_adapter(network, name)
    assert (network(x) - bare).abs().max() < close
    perturb(network)
    assert (network(x) - bare).abs().max() > 0.01, "perturbed parameters change the features"


@pytest.mark.parametrize("name", ["vpt", "noah"])
@torch.no_grad()
def test_prompts_change_the_initial_features(name):
    network = transformer()
    bare = network(images())
    assert (attach_adapter(network, name)(images()) - bare).abs().max() > 1e-4


@ALL
def test_all_of_the_adapter_and_nothing_else_is_trained(name):
    network = transformer()
    before = {key: value.clone() for key, value in network.state_dict().items()}
    weights = {id(p) for p in network.parameters()}
    attach_adapter(network, name)
    parameters = trainable(network)
    assert parameters
    assert not weights & {id(p) for p in parameters.values()}
    target = torch.randn(5, 24, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    optimiser = torch.optim.SGD(parameters.values(), lr=0.01)
    for _ in range(3):  # only after the first step of the parameters at zero do the others have a gradient
        optimiser.zero_grad()
        (network(images()) - target).square().mean().backward()
        optimiser.step()
    for key, parameter in parameters.items():
        assert parameter.grad is not None, key
        assert bool((parameter.grad != 0).any()), key
    frozen = [p for p in network.parameters() if not p.requires_grad]
    assert all(p.grad is None for p in frozen)
    assert {id(p) for p in frozen} == weights, "the weights are the same tensors"
    assert all(torch.equal(a, b) for a, b in zip(before.values(), frozen, strict=True))


@ALL
@torch.no_grad()
def test_stored_parameters_restore_the_features_bit_for_bit(name):
    network = attach_adapter(transformer(), name)
    perturb(network)
    features = network(images())
    stored = {key: p.clone() for key, p in trainable(network).items()}
    options = json.loads(json.dumps(adapters.complete_options(name)))

    rebuilt = attach_adapter(transformer(), name, seed=9, **options)
    assert {key: p.shape for key, p in trainable(rebuilt).items()} == {k: v.shape for k, v in stored.items()}
    assert not torch.equal(rebuilt(images()), features)
    rebuilt.load_state_dict(stored, strict=False)
    assert torch.equal(rebuilt(images()), features)
    assert torch.equal(run_stages(rebuilt, images()), features), "the same part by part"


@ALL
@torch.no_grad()
def test_initial_values_depend_on_the_generator_alone(name):
    torch.manual_seed(4)
    state = torch.get_rng_state()
    first = trainable(attach_adapter(transformer(), name))
    assert torch.equal(torch.get_rng_state(), state), "torch's global generator is unchanged"
    torch.manual_seed(5)
    second = trainable(attach_adapter(transformer(), name))
    assert all(torch.equal(first[key], second[key]) for key in first)
    other = trainable(attach_adapter(transformer(), name, seed=1))
    differ = {key for key in first if not torch.equal(first[key], other[key])}
    assert bool(differ) == (name != "film"), "FiLM is initially 1 and 0"


@ALL
@torch.no_grad()
def test_models_that_share_weights_are_independent(name):
    bare = transformer()
    features = bare(images())
    shared = {id(p): p for p in [*bare.parameters(), *bare.buffers()]}
    one = attach_adapter(copy.deepcopy(bare, dict(shared)), name)
    two = attach_adapter(copy.deepcopy(bare, dict(shared)), "film")
    start = two(images())
    perturb(one)
    assert torch.equal(bare(images()), features)
    assert torch.equal(two(images()), start)
    again = copy.deepcopy(one, dict(shared))
    assert torch.equal(again(images()), one(images()))
    perturbed = one(images())
    perturb(again, seed=3)
    assert torch.equal(one(images()), perturbed)
    assert not torch.equal(again(images()), perturbed)


@ALL
def test_the_gradient_through_a_head(name):
    network = attach_adapter(transformer(dtype=torch.float32), name)
    perturb(network)
    features = network(images(12, torch.float32))
    labels = torch.arange(12) % 3
    head = LDA()
    logits = head.evaluate(head.build(features[:6], labels[:6]), features[6:])
    loss = torch.nn.functional.cross_entropy(logits, labels[6:])
    parameters = trainable(network)
    gradient = torch.autograd.grad(loss, list(parameters.values()))
    for key, part in zip(parameters, gradient, strict=True):
        assert bool(torch.isfinite(part).all()), key
        assert bool((part != 0).any()), key


@pytest.mark.parametrize("name", ["vpt", "adapter", "adaptformer", "convpass", "noah"])
def test_convnets_are_rejected(name):
    with torch.device("meta"):
        network = build(record_for("resnet18"))
    with pytest.raises(UsageError) as error:
        attach_adapter(network, name)
    assert "ResNet" in error.value.message
    assert "film or lora" in error.value.hint


@pytest.mark.parametrize("name", ["adapter", "adaptformer", "convpass", "noah", "lora"])
def test_other_block_types_are_rejected(name):
    network = transformer(block_fn=timm_block("ParallelScalingBlock"))
    with pytest.raises(UsageError, match="ParallelScalingBlock") as error:
        attach_adapter(network, name)
    assert "vpt" in error.value.hint
    attach_adapter(network, "vpt")
    network(images())


def timm_block(name: str) -> type:
    return getattr(sys.modules["timm.models.vision_transformer"], name)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("lorra", {}, "adapter cannot be 'lorra'"),
        ("lora", {"alpha": 2}, "no option 'alpha'"),
        ("film", {"rank": 2}, "no option 'rank'"),
        ("lora", {"rank": 0}, "from 1 on"),
        ("lora", {"rank": 2.5}, "whole number"),
        ("lora", {"rank": float("nan")}, "whole number"),
        ("lora", {"rank": "8"}, "whole number"),
        ("convpass", {"size": True}, "whole number"),
        ("adapter", {"scale": float("nan")}, "finite"),
        ("adapter", {"scale": "1"}, "finite"),
        ("noah", {"supernet": -1}, "from 0 on"),
        ("noah", {"subnet": [[1, 2]]}, "for every block"),
        ("noah", {"subnet": 5}, "for every block"),
        ("noah", {"subnet": [[1, 2, -3]]}, "for every block"),
    ],
)
def test_invalid_options(name, options, message):
    with pytest.raises(UsageError, match=message):
        adapters.complete_options(name, options)


def test_every_option_has_a_help_text():
    for adapter in adapters.ADAPTERS.values():
        assert all(field.metadata["help"] for field in dataclasses.fields(adapter.options))


def test_options_are_completed_by_defaults():
    assert adapters.complete_options("film") == {}
    assert adapters.complete_options("adaptformer", {"size": 4}) == {"size": 4, "scale": 0.1}
    subnet = [[1, 2, 3], [0, 0, 0]]
    assert adapters.complete_options("noah", {"subnet": tuple(map(tuple, subnet))})["subnet"] == subnet


def test_lora_without_peft(monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingExtraError, match="bench"):
        attach_adapter(transformer(), "lora")


@pytest.mark.parametrize("architecture", ["deit_tiny_distilled_patch16_224", "vit_small_patch14_dinov2"])
@WITHOUT_PROMPTS
@torch.no_grad()
def test_other_transformers(name, architecture):
    """One has two tokens before the patches, the other LayerScale."""
    network = transformer(name=architecture, patch_size=16)
    bare = network(images())
    attach_adapter(network, name)
    assert (run_stages(network, images()) - bare).abs().max() < 1e-10
    perturb(network)
    assert (run_stages(network, images()) - bare).abs().max() > 1e-3


@torch.no_grad()
def test_lora_on_real_weights():
    backbone = load_backbone("efficientnet_lite0")
    network = copy.deepcopy(backbone.module)
    x = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    bare = network(x)
    adapters.attach(network, "lora", generator=torch.Generator().manual_seed(0))
    assert (network(x) - bare).abs().max() < 1e-5
    assert len(trainable(network)) == 2 * 31
    perturb(network)
    assert (network(x) - bare).abs().max() > 0.01
