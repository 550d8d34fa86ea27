"""AdaptFormer (Chen et al., 2022): a bottleneck parallel to the MLP.

    x ← x + MLP(LN(x)) + s · (U ReLU(D x + d) + u)

Size 8 gives the published 0.2 M. s = 0.1, biases, no norm before D, D from ±1/√width and U from zero are the
released settings (ShoufaChen/AdaptFormer: main_image.py, models/adapter.py, models/custom_modules.py). There is no
dropout, because our networks stay in eval mode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from .adapter import Bottleneck, finite, integer_from, option, transformer_blocks, uniform, width_of

PARTS = ("norm1", "attn", "ls1", "drop_path1", "norm2", "mlp", "ls2", "drop_path2")


@dataclass(frozen=True)
class AdaptFormerOptions:
    """The options of AdaptFormer."""

    size: int = option(8, "channels of the bottleneck", integer_from(1))
    scale: float = option(0.1, "factor s of its output", finite)


class AdaptFormerBlock(nn.Module):
    """A transformer block with a bottleneck that has the same input as the norm of the MLP."""

    def __init__(self, block: nn.Module, bottleneck: Bottleneck, scale: float) -> None:
        super().__init__()
        self.block = block
        self.bottleneck = bottleneck
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        """Compute the block, attention and MLP, with the bottleneck beside the MLP."""
        block: Any = self.block
        x = x + block.drop_path1(block.ls1(block.attn(block.norm1(x))))
        adapted = self.scale * self.bottleneck(x)
        output: Tensor = x + block.drop_path2(block.ls2(block.mlp(block.norm2(x)))) + adapted
        return output


def attach(network: nn.Module, options: AdaptFormerOptions, generator: torch.Generator) -> None:
    """Add a bottleneck to every block."""
    blocks = transformer_blocks(network, "adaptformer", *PARTS)
    width = width_of(network)
    for i, block in enumerate(blocks):
        down = uniform((options.size, width), width**-0.5, network, generator)
        adapted = AdaptFormerBlock(block, Bottleneck(down, torch.relu), options.scale)
        cast(nn.Sequential, network.blocks)[i] = adapted
