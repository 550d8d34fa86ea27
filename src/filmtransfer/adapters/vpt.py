"""VPT-Deep (Jia et al., 2022): trainable tokens, the prompts, beside the tokens of each block.

The outputs of a block at its prompts are discarded and the next block has prompts of its own, so that prompts are
added and removed within the block. Attention does not depend on the order of tokens; the prompts come last.

50 prompts in 12 blocks of width 768 are the published 0.5 M. Initial values are uniform within √(6 / (3p² + width)),
where p is the side of a patch (KMnP/vpt: src/models/vit_prompt/vit.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from .adapter import integer_from, option, transformer_blocks, uniform, width_of


@dataclass(frozen=True)
class VPTOptions:
    """The options of VPT."""

    prompts: int = option(50, "prompts of each block", integer_from(1))


class PromptedBlock(nn.Module):
    """A block that adds the first ``size`` of its prompts and removes the last ``drop`` tokens of its output."""

    def __init__(self, block: nn.Module, prompts: Tensor | None) -> None:
        super().__init__()
        self.block = block
        self.prompts = None if prompts is None else nn.Parameter(prompts)
        self.size = self.drop = 0 if prompts is None else len(prompts)

    def forward(self, x: Tensor) -> Tensor:
        """Compute the block with its prompts."""
        if self.prompts is not None and self.size:
            x = torch.cat([x, self.prompts[: self.size].expand(x.shape[0], -1, -1)], dim=1)
        x = self.block(x)
        return x[:, : x.shape[1] - self.drop]


def attach(network: nn.Module, options: VPTOptions, generator: torch.Generator) -> None:
    """Add the same number of prompts to every block."""
    insert(network, [options.prompts] * len(transformer_blocks(network, "vpt")), generator)


def insert(network: nn.Module, sizes: list[int], generator: torch.Generator) -> list[PromptedBlock]:
    """Add ``sizes[i]`` prompts to block i and return the new blocks."""
    blocks = cast(nn.Sequential, network.blocks)
    width = width_of(network)
    patch = cast(tuple[int, int], cast(nn.Module, network.patch_embed).patch_size)
    bound = math.sqrt(6 / (3 * math.prod(patch) + width))
    for i, size in enumerate(sizes):
        prompts = uniform((size, width), bound, network, generator) if size else None
        blocks[i] = PromptedBlock(blocks[i], prompts)
    return [cast(PromptedBlock, block) for block in blocks]
