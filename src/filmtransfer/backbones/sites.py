"""The FiLM sites of each backbone family.

FiLM is applied after the norm that follows the middle 3×3 (or depthwise) convolution of each block, before
the activation, and after the last norm of the backbone; in EfficientNets also after the norm of the stem.
Transformers have no convolutions; their sites are all LayerNorms.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from ..errors import InputError

Rule = Callable[[nn.Module], list[str]]


def film_sites(backbone: nn.Module) -> list[str]:
    """Return the names of the norms that become FiLM layers, in the order of the network."""
    family = family_of(backbone)
    sites = RULES[family](backbone)
    order = {name: i for i, (name, _) in enumerate(backbone.named_modules())}
    return sorted(dict.fromkeys(sites), key=order.__getitem__)


def family_of(backbone: nn.Module) -> str:
    """Return the timm family (the name of its module), which has to be one with a rule."""
    family = type(backbone).__module__.rpartition(".")[2]
    if family not in RULES:
        raise InputError(
            f"No FiLM sites are known for {type(backbone).__name__}.",
            f"Families: {', '.join(sorted(RULES))}.",
        )
    return family


def _after_spatial_convolutions(backbone: nn.Module) -> list[str]:
    """Return the norm after the k×k convolution of each block of an EfficientNet or MobileNet."""
    norms = {
        "InvertedResidual": ("bn2",),  # 1×1, then depthwise, bn2
        "UniversalInvertedResidual": ("dw_mid.bn", "dw_start.bn", "pw_exp.bn"),  # has one or two of them
        "DepthwiseSeparableConv": ("bn1",),  # depthwise first
        "EdgeResidual": ("bn1",),  # a full 3×3 first
        "ConvBnAct": ("bn1",),
    }
    existing = {name for name, _ in backbone.named_modules()}
    return [
        next(f"{name}.{norm}" for norm in norms[type(block).__name__] if f"{name}.{norm}" in existing)
        for name, block in backbone.named_modules()
        if type(block).__name__ in norms
    ]


def _efficientnet(backbone: nn.Module) -> list[str]:
    return ["bn1", *_after_spatial_convolutions(backbone), "bn2"]


def _mobilenetv3(backbone: nn.Module) -> list[str]:
    # The last convolution comes after pooling and has no norm: the last norm is that of the last block,
    # a 1×1 ConvBnAct that the rule above includes.
    return ["bn1", *_after_spatial_convolutions(backbone)]


def _resnetv2(backbone: nn.Module) -> list[str]:
    # Pre-activation: conv1 → norm2 → conv2 (3×3) → norm3 → conv3; without a bottleneck conv1 is the 3×3.
    norms = {"PreActBottleneck": "norm3", "Bottleneck": "norm2", "PreActBasic": "norm2"}
    blocks = [(n, type(m).__name__) for n, m in backbone.named_modules() if type(m).__name__ in norms]
    return [*(f"{name}.{norms[kind]}" for name, kind in blocks), "norm"]


def _resnet(backbone: nn.Module) -> list[str]:
    sites, last = [], ""
    for name, block in backbone.named_modules():
        if type(block).__name__ == "Bottleneck":
            sites.append(f"{name}.bn2")
            last = f"{name}.bn3"
        elif type(block).__name__ == "BasicBlock":
            sites.append(f"{name}.bn1")
            last = f"{name}.bn2"
    return [*sites, last]


def _regnet(backbone: nn.Module) -> list[str]:
    blocks = [n for n, m in backbone.named_modules() if type(m).__name__ == "Bottleneck"]
    return [*(f"{name}.conv2.bn" for name in blocks), f"{blocks[-1]}.conv3.bn"]


def _convnext(backbone: nn.Module) -> list[str]:
    # Depthwise 7×7, then the only norm of the block; the last norm follows the pooling.
    blocks = [n for n, m in backbone.named_modules() if type(m).__name__ == "ConvNeXtBlock"]
    return [*(f"{name}.norm" for name in blocks), "head.norm"]


def _every_layer_norm(backbone: nn.Module) -> list[str]:
    width = getattr(backbone, "embed_dim", None)
    return [
        name
        for name, m in backbone.named_modules()
        if isinstance(m, nn.LayerNorm) and list(m.normalized_shape) == [width]
    ]


RULES: dict[str, Rule] = {
    "convnext": _convnext,
    "deit": _every_layer_norm,
    "efficientnet": _efficientnet,
    "mobilenetv3": _mobilenetv3,
    "regnet": _regnet,
    "resnet": _resnet,
    "resnetv2": _resnetv2,
    "vision_transformer": _every_layer_norm,
}
