"""The FiLM sites of each backbone family.

FiLM is applied after the norm that follows the middle 3×3 (or depthwise) convolution of each block, before
the activation, and after the last norm of the backbone; in EfficientNets also after the norm of the stem.
Transformers have no convolutions; their sites are all LayerNorms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import InputError

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class SiteRule:
    """The FiLM sites of a family, as names of norms; of several names the first that exists is meant."""

    norms: Mapping[str, tuple[str, ...]]  # by type of block: the norm after its k×k convolution
    last: tuple[str, ...] = ()  # the last norm of the backbone; {} stands for its last block
    stem: tuple[str, ...] = ()


_INVERTED = {
    "InvertedResidual": ("bn2",),  # 1×1, then depthwise, bn2
    "UniversalInvertedResidual": ("dw_mid.bn", "dw_start.bn", "pw_exp.bn"),  # has one or two of them
    "DepthwiseSeparableConv": ("bn1",),  # depthwise first
    "EdgeResidual": ("bn1",),  # a full 3×3 first
    "ConvBnAct": ("bn1",),
}
_RESNETV2 = {"PreActBottleneck": ("norm3",), "Bottleneck": ("norm2",), "PreActBasic": ("norm2",)}

RULES: dict[str, SiteRule | None] = {  # None: every LayerNorm
    # Depthwise 7×7, then the only norm of the block; the last norm follows the pooling.
    "convnext": SiteRule({"ConvNeXtBlock": ("norm",)}, ("head.norm",)),
    "deit": None,
    "efficientnet": SiteRule(_INVERTED, ("bn2",), ("bn1",)),
    # The last convolution comes after pooling and has no norm: the last norm is that of the last block,
    # a 1×1 ConvBnAct that the rule includes.
    "mobilenetv3": SiteRule(_INVERTED, stem=("bn1",)),
    "regnet": SiteRule({"Bottleneck": ("conv2.bn",)}, ("{}.conv3.bn",)),
    "resnet": SiteRule({"Bottleneck": ("bn2",), "BasicBlock": ("bn1",)}, ("{}.bn3", "{}.bn2")),
    # Pre-activation: conv1 → norm2 → conv2 (3×3) → norm3 → conv3; without a bottleneck conv1 is the 3×3.
    "resnetv2": SiteRule(_RESNETV2, ("norm",)),
    "vision_transformer": None,
}


def film_sites(backbone: nn.Module) -> list[str]:
    """Return the names of the norms that become FiLM layers, in the order of the network."""
    rule, modules = RULES[family_of(backbone)], dict(backbone.named_modules())
    if rule is None:
        from torch import nn  # here, because the facts of the catalogue need no torch

        width = getattr(backbone, "embed_dim", None)
        norms = {name: m for name, m in modules.items() if isinstance(m, nn.LayerNorm)}
        return [name for name, norm in norms.items() if list(norm.normalized_shape) == [width]]

    def existing(names: Sequence[str]) -> list[str]:
        return [name for name in names if name in modules][:1]

    blocks = {name: type(m).__name__ for name, m in modules.items() if type(m).__name__ in rule.norms}
    sites = existing(rule.stem) + existing([name.format(list(blocks)[-1]) for name in rule.last])
    for name, kind in blocks.items():
        sites += existing([f"{name}.{norm}" for norm in rule.norms[kind]])
    return sorted(set(sites), key=list(modules).index)


def family_of(backbone: nn.Module) -> str:
    """Return the timm family (the name of its module), which has to be one with a rule."""
    family = type(backbone).__module__.rpartition(".")[2]
    if family not in RULES:
        raise InputError(
            f"No FiLM sites are known for {type(backbone).__name__}.",
            f"Families: {', '.join(sorted(RULES))}.",
        )
    return family
