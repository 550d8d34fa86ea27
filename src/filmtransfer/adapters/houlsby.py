"""Adapter (Houlsby et al., 2019): a bottleneck after the MLP, with a residual connection of its own.

    h = MLP(LN(x)),    x ← x + h + s · U σ(D h + d)

The original has a second one after the attention. The published 0.2 M of the comparison are NOAH's Adapter: one per
block, after the MLP, size 8, with biases, QuickGELU (ZhangYuanhan-AI/NOAH: experiments/Adapter/
ViT-B_prompt_adapter_8.yaml, model/module/adapter_super.py). There U is initialised by Xavier's rule; here it is zero.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .adapter import Bottleneck, BottleneckOptions, quick_gelu, transformer_blocks, uniform, width_of


class AdaptedMLP(nn.Module):
    """An MLP followed by its Adapter."""

    def __init__(self, mlp: nn.Module, adapter: Bottleneck, scale: float) -> None:
        super().__init__()
        self.mlp = mlp
        self.adapter = adapter
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the MLP plus that of the Adapter."""
        x = self.mlp(x)
        return x + self.scale * self.adapter(x) if self.adapter.size else x


def attach(network: nn.Module, options: BottleneckOptions, generator: torch.Generator) -> None:
    """Add an Adapter to every block."""
    for block in transformer_blocks(network, "adapter", "mlp"):
        insert(block, options.size, options.scale, network, generator)


def insert(block: nn.Module, size: int, scale: float, network: nn.Module, generator: torch.Generator) -> None:
    """Add an Adapter after the MLP of one block."""
    width = width_of(network)
    down = uniform((size, width), math.sqrt(6 / (size + width)), network, generator)
    block.mlp = AdaptedMLP(block.get_submodule("mlp"), Bottleneck(down, quick_gelu), scale)
