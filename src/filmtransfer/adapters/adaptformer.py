"""AdaptFormer (Chen et al., 2022): a bottleneck parallel to the MLP.

    x ← x + MLP(LN(x)) + s · (U ReLU(D x + d) + u)

Size 8 gives the published 0.2 M. s = 0.1, biases, no norm before D, D from ±1/√width and U from zero are the
released settings (ShoufaChen/AdaptFormer: main_image.py, models/adapter.py, models/custom_modules.py). No dropout:
our networks stay in eval mode.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from .bottleneck import Bottleneck, transformer_blocks, uniform, width_of

DEFAULTS: dict[str, Any] = {"size": 8, "scale": 0.1}
PARTS = ("norm1", "attn", "ls1", "drop_path1", "norm2", "mlp", "ls2", "drop_path2")


class AdaptBlock(nn.Module):
    """A block whose bottleneck sees what the MLP's norm sees, so its two halves are walked here."""

    def __init__(self, block: nn.Module, bottleneck: Bottleneck, scale: float) -> None:
        super().__init__()
        self.block = block
        self.bottleneck = bottleneck
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        block: Any = self.block
        x = x + block.drop_path1(block.ls1(block.attn(block.norm1(x))))
        beside = self.scale * self.bottleneck(x)
        whole: Tensor = x + block.drop_path2(block.ls2(block.mlp(block.norm2(x)))) + beside
        return whole


def attach(network: nn.Module, options: dict[str, Any], generator: torch.Generator) -> None:
    """One bottleneck in every block."""
    blocks = transformer_blocks(network, "adaptformer", *PARTS)
    width = width_of(network)
    for i, block in enumerate(blocks):
        down = uniform((options["size"], width), width**-0.5, network, generator)
        adapted = AdaptBlock(block, Bottleneck(down, torch.relu), options["scale"])
        cast(nn.Sequential, network.blocks)[i] = adapted
