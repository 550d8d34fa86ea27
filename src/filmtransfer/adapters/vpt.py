"""VPT-Deep (Jia et al., 2022): learned tokens, the prompts, beside each block's own.

What a block makes of its prompts is thrown away and the next block gets its own, so they come and go within
the block and nobody outside sees them. Attention does not know the order of its tokens: they stand at the end.

50 prompts in 12 blocks of width 768 are the published 0.5 M. Initial values: uniform within √(6 / (3p² + width)),
p the patch's side (KMnP/vpt: src/models/vit_prompt/vit.py).
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor, nn

from .bottleneck import transformer_blocks, uniform, width_of

DEFAULTS: dict[str, Any] = {"prompts": 50}


class Prompted(nn.Module):
    """A block with the first ``size`` of its prompts; the last ``drop`` tokens go behind it."""

    def __init__(self, block: nn.Module, prompts: Tensor | None) -> None:
        super().__init__()
        self.block = block
        self.prompts = None if prompts is None else nn.Parameter(prompts)
        self.size = self.drop = 0 if prompts is None else len(prompts)

    def forward(self, x: Tensor) -> Tensor:
        if self.prompts is not None and self.size:
            x = torch.cat([x, self.prompts[: self.size].expand(x.shape[0], -1, -1)], dim=1)
        x = self.block(x)
        return x[:, : x.shape[1] - self.drop]


def attach(network: nn.Module, options: dict[str, Any], generator: torch.Generator) -> None:
    """As many prompts in every block."""
    put(network, [options["prompts"]] * len(transformer_blocks(network, "vpt")), generator)


def put(network: nn.Module, sizes: list[int], generator: torch.Generator) -> list[Prompted]:
    """So many prompts in each block; the blocks that have taken the places of the old ones."""
    blocks = cast(nn.Sequential, network.blocks)
    width = width_of(network)
    bound = math.sqrt(6 / (3 * _patch_area(network) + width))
    for i, size in enumerate(sizes):
        prompts = uniform((size, width), bound, network, generator) if size else None
        blocks[i] = Prompted(blocks[i], prompts)
    return [cast(Prompted, block) for block in blocks]


def _patch_area(network: nn.Module) -> int:
    height, width = cast(nn.Module, network.patch_embed).patch_size  # type: ignore[misc]
    return int(height) * int(width)
