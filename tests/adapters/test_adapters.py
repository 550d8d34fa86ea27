"""What holds for every adapter: its size, its start, what it learns, and that it can be put back."""

from __future__ import annotations

import copy
import json
import sys

import pytest
import torch

from filmtransfer import adapters
from filmtransfer.backbones import build, film_sites, load_backbone, record_for
from filmtransfer.errors import MissingExtraError, UsageError
from filmtransfer.heads import LDA

from .small import attached, disturb, images, learned, transformer, walked

# The table of the paper gives 0.5, 0.2, 0.2, 0.3, 0.4 and 0.3 million.
PUBLISHED = {
    "film": 38_400,
    "lora": 294_912,
    "vpt": 460_800,
    "adapter": 156_768,
    "adaptformer": 156_768,
    "convpass": 327_552,
    "noah": 431_686,
}
ALL = pytest.mark.parametrize("name", adapters.ADAPTERS)
QUIET = pytest.mark.parametrize("name", [name for name in adapters.ADAPTERS if name not in ("vpt", "noah")])


@ALL
def test_numbers_on_vit_b16(name):
    with torch.device("meta"):
        network = build(record_for("vit_b16"))
    attached(network, name)
    assert adapters.count(network) == PUBLISHED[name]
    assert not any(module.training for module in network.modules())


def test_the_published_table():
    millions = {"vpt": 0.5, "adapter": 0.2, "adaptformer": 0.2, "lora": 0.3, "noah": 0.4, "convpass": 0.3}
    assert {name: round(PUBLISHED[name] / 1e6, 1) for name in millions} == millions


@QUIET
@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@torch.no_grad()
def test_starts_as_the_bare_network(name, dtype, close):
    network = transformer(dtype=dtype)
    x = images(dtype=dtype)
    bare = network(x)
    attached(network, name)
    assert (network(x) - bare).abs().max() < close
    disturb(network)
    assert (network(x) - bare).abs().max() > 0.01, "and does not stay there"


@pytest.mark.parametrize("name", ["vpt", "noah"])
@torch.no_grad()
def test_prompts_are_not_quiet(name):
    network = transformer()
    bare = network(images())
    assert (attached(network, name)(images()) - bare).abs().max() > 1e-4


@ALL
def test_learns_all_of_it_and_nothing_else(name):
    network = transformer()
    before = {key: value.clone() for key, value in network.state_dict().items()}
    weights = {id(p) for p in network.parameters()}
    attached(network, name)
    numbers = learned(network)
    assert numbers
    assert not weights & {id(p) for p in numbers.values()}
    target = torch.randn(5, 24, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    optimiser = torch.optim.SGD(numbers.values(), lr=0.01)
    for _ in range(3):  # the first step moves what begins at zero, and lets the rest be moved
        optimiser.zero_grad()
        (network(images()) - target).square().mean().backward()
        optimiser.step()
    for key, parameter in numbers.items():
        assert parameter.grad is not None, key
        assert bool((parameter.grad != 0).any()), key
    kept = [p for p in network.parameters() if not p.requires_grad]
    assert all(p.grad is None for p in kept)
    assert {id(p) for p in kept} == weights, "the weights are the same tensors"
    assert all(torch.equal(a, b) for a, b in zip(before.values(), kept, strict=True))


@ALL
@torch.no_grad()
def test_comes_back_bit_for_bit(name):
    network = attached(transformer(), name)
    disturb(network)
    features = network(images())
    numbers = {key: p.clone() for key, p in learned(network).items()}
    options = json.loads(json.dumps(adapters.complete_options(name)))

    rebuilt = attached(transformer(), name, seed=9, **options)
    assert {key: p.shape for key, p in learned(rebuilt).items()} == {k: v.shape for k, v in numbers.items()}
    assert not torch.equal(rebuilt(images()), features)
    rebuilt.load_state_dict(numbers, strict=False)
    assert torch.equal(rebuilt(images()), features)
    assert torch.equal(walked(rebuilt, images()), features), "part by part as in one go"


@ALL
@torch.no_grad()
def test_initial_values_depend_on_the_generator_alone(name):
    torch.manual_seed(4)
    state = torch.get_rng_state()
    first = learned(attached(transformer(), name))
    assert torch.equal(torch.get_rng_state(), state), "torch's own generator is left alone"
    torch.manual_seed(5)
    second = learned(attached(transformer(), name))
    assert all(torch.equal(first[key], second[key]) for key in first)
    other = learned(attached(transformer(), name, seed=1))
    differ = {key for key in first if not torch.equal(first[key], other[key])}
    assert bool(differ) == (name != "film"), "FiLM begins at 1 and 0"


@ALL
@torch.no_grad()
def test_models_that_share_weights_are_independent(name):
    bare = transformer()
    features = bare(images())
    shared = {id(p): p for p in [*bare.parameters(), *bare.buffers()]}
    one = attached(copy.deepcopy(bare, dict(shared)), name)
    two = attached(copy.deepcopy(bare, dict(shared)), "film")
    start = two(images())
    disturb(one)
    assert torch.equal(bare(images()), features)
    assert torch.equal(two(images()), start)
    again = copy.deepcopy(one, dict(shared))
    assert torch.equal(again(images()), one(images()))
    changed = one(images())
    disturb(again, seed=3)
    assert torch.equal(one(images()), changed)
    assert not torch.equal(again(images()), changed)


@ALL
def test_under_a_head_of_the_house(name):
    network = attached(transformer(dtype=torch.float32), name)
    disturb(network)
    features = network(images(12, torch.float32))
    labels = torch.arange(12) % 3
    head = LDA()
    logits = head.evaluate(head.build(features[:6], labels[:6]), features[6:])
    loss = torch.nn.functional.cross_entropy(logits, labels[6:])
    numbers = learned(network)
    gradient = torch.autograd.grad(loss, list(numbers.values()))
    for key, part in zip(numbers, gradient, strict=True):
        assert bool(torch.isfinite(part).all()), key
        assert bool((part != 0).any()), key


@pytest.mark.parametrize("name", ["vpt", "adapter", "adaptformer", "convpass", "noah"])
def test_convnets_are_refused(name):
    with torch.device("meta"):
        network = build(record_for("resnet18"))
    with pytest.raises(UsageError) as error:
        attached(network, name)
    assert "ResNet" in error.value.message
    assert "film or lora" in error.value.hint


@pytest.mark.parametrize("name", ["adapter", "adaptformer", "convpass", "noah", "lora"])
def test_blocks_of_another_kind_are_refused(name):
    network = transformer(block_fn=timm_block("ParallelScalingBlock"))
    with pytest.raises(UsageError, match="ParallelScalingBlock") as error:
        attached(network, name)
    assert "vpt" in error.value.hint
    attached(network, "vpt")
    network(images())


def timm_block(name: str) -> type:
    return getattr(sys.modules["timm.models.vision_transformer"], name)


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("lorra", {}, "adapter cannot be 'lorra'"),
        ("lora", {"alpha": 2}, "no option 'alpha'"),
        ("film", {"rank": 2}, "no option 'rank'"),
        ("lora", {"rank": 0}, "from 1 on"),
        ("lora", {"rank": 2.5}, "whole number"),
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
def test_wrong_options(name, options, says):
    with pytest.raises(UsageError, match=says):
        adapters.complete_options(name, options)


def test_options_are_filled_up():
    assert adapters.complete_options("film") == {}
    assert adapters.complete_options("adaptformer", {"size": 4}) == {"size": 4, "scale": 0.1}
    subnet = [[1, 2, 3], [0, 0, 0]]
    assert adapters.complete_options("noah", {"subnet": tuple(map(tuple, subnet))})["subnet"] == subnet


def test_lora_without_peft(monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingExtraError, match="bench"):
        attached(transformer(), "lora")


@pytest.mark.parametrize("architecture", ["deit_tiny_distilled_patch16_224", "vit_small_patch14_dinov2"])
@QUIET
@torch.no_grad()
def test_other_transformers(name, architecture):
    """Two tokens before the patches; a LayerScale."""
    network = transformer(name=architecture, patch_size=16)
    bare = network(images())
    attached(network, name)
    assert (walked(network, images()) - bare).abs().max() < 1e-10
    disturb(network)
    assert (walked(network, images()) - bare).abs().max() > 1e-3


@torch.no_grad()
def test_lora_on_real_weights():
    backbone = load_backbone("efficientnet_lite0")
    network = copy.deepcopy(backbone.module)
    x = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    bare = network(x)
    adapters.attach(network, "lora", sites=film_sites(network), generator=torch.Generator().manual_seed(0))
    assert (network(x) - bare).abs().max() < 1e-5
    assert len(learned(network)) == 2 * 31
    disturb(network)
    assert (network(x) - bare).abs().max() > 0.01
