"""Adapter (Houlsby et al., 2019): a bottleneck behind the MLP, with a residual of its own.

    h = MLP(LN(x)),    x ← x + h + s · U σ(D h + d)

The original has one behind the attention too. The published 0.2 M of the comparison are NOAH's Adapter: one per
block, behind the MLP, size 8, with biases, QuickGELU (ZhangYuanhan-AI/NOAH: experiments/Adapter/
ViT-B_prompt_adapter_8.yaml, model/module/adapter_super.py). There U begins at Xavier's values; here at zero.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from .bottleneck import Bottleneck, quick_gelu, transformer_blocks, uniform, width_of

DEFAULTS: dict[str, Any] = {"size": 8, "scale": 1.0}


class After(nn.Module):
    """An MLP and its Adapter."""

    def __init__(self, mlp: nn.Module, adapter: Bottleneck, scale: float) -> None:
        super().__init__()
        self.mlp = mlp
        self.adapter = adapter
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        x = self.mlp(x)
        return x + self.scale * self.adapter(x) if self.adapter.size else x


def attach(network: nn.Module, options: dict[str, Any], generator: torch.Generator) -> None:
    """One Adapter in every block."""
    for block in transformer_blocks(network, "adapter", "mlp"):
        put(block, options["size"], options["scale"], network, generator)


def put(block: nn.Module, size: int, scale: float, network: nn.Module, generator: torch.Generator) -> None:
    """An Adapter behind the MLP of one block."""
    width = width_of(network)
    down = uniform((size, width), math.sqrt(6 / (size + width)), network, generator)
    block.mlp = After(block.get_submodule("mlp"), Bottleneck(down, quick_gelu), scale)
