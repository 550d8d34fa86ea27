"""NOAH (Zhang et al., 2022): Adapter, LoRA and VPT together, with a size of their own in every block.

The sizes are searched for each task (search.py): a supernet with every module at its largest size is trained with a
random subnet at each step (``set_subnet``: only the first rows of its matrices are used), subnets are scored with it
on held-out images, and the best one is trained again as an ordinary adapter.

Without a search the subnet is the one published for SVHN, whose 431,686 parameters on ViT-B/16 are the table's 0.4 M
(ZhangYuanhan-AI/NOAH: experiments/NOAH/subnet/VTAB/ViT-B_prompt_svhn.yaml; the forward pass is in
model/supernet_vision_transformer_timm.py). Prompts stay among the tokens until a block has its own. The released
code also counts prompts before the first block, which that block discards; they are omitted here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import UsageError
from . import houlsby, lora, vpt
from .adapter import finite, integer_from, option, transformer_blocks, uniform, width_of
from .search_space import SearchSpace, Subnet

PUBLISHED: Subnet = tuple(
    zip(
        (5, 5, 5, 5, 5, 10, 5, 10, 5, 5, 5, 5),  # Adapter
        (5, 5, 5, 10, 5, 5, 5, 10, 10, 10, 10, 5),  # LoRA
        (10, 5, 5, 10, 5, 5, 5, 5, 5, 5, 5, 5),  # prompts
        strict=True,
    )
)


def check_subnet(subnet: object) -> list[list[int]] | None:
    """Return a subnet as lists; None stands for the published one."""
    if subnet is None:
        return None
    try:
        rows = [[int(size) for size in row] for row in cast(Iterable[Iterable[int]], subnet)]
    except (TypeError, ValueError):
        rows = []
    if not rows or any(len(row) != 3 or min(row) < 0 for row in rows):
        raise ValueError("It is [Adapter, LoRA, prompts] for every block, from 0 on.")
    return rows


@dataclass(frozen=True)
class NOAHOptions:
    """The options of NOAH."""

    subnet: list[list[int]] | None = option(  # noqa: RUF009  (a field)
        None, "[Adapter, LoRA, prompts] of each block, or None for the published subnet", check_subnet
    )
    supernet: int = option(0, "largest size of each module of a supernet, or 0 for a subnet", integer_from(0))
    scale: float = option(1.0, "factor of Adapter and LoRA", finite)


class ElasticLoRA(nn.Module):
    """A linear layer with LoRA, of which only the first ``size`` ranks are used."""

    def __init__(self, layer: nn.Module, down: Tensor, outputs: int, scale: float) -> None:
        super().__init__()
        self.layer = layer
        self.scale = scale
        self.size = len(down)
        self.down = nn.Parameter(down)
        self.up = nn.Parameter(down.new_zeros(outputs, len(down)))

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the layer plus that of LoRA."""
        output: Tensor = self.layer(x)
        if not self.size:
            return output
        return output + self.scale * F.linear(F.linear(x, self.down[: self.size]), self.up[:, : self.size])


def attach(network: nn.Module, options: NOAHOptions, generator: torch.Generator) -> None:
    """Attach a subnet as an ordinary adapter, or the supernet of all subnets."""
    blocks = transformer_blocks(network, "noah", "attn", "mlp")
    subnet = _subnet_for(options.subnet, len(blocks))
    if options.supernet:
        _attach_supernet(network, blocks, options, generator)
        set_subnet(network, ((options.supernet,) * 3,) * len(blocks))
        return
    ranks = {name: rank for name, (_, rank, _) in zip(lora.targets(network), subnet, strict=True) if rank}
    if ranks:
        lora.insert(network, ranks, options.scale, generator)
    for block, (size, _, _) in zip(blocks, subnet, strict=True):
        if size:
            houlsby.insert(block, size, options.scale, network, generator)
    prompts = [count for _, _, count in subnet]
    _set_prompts(vpt.insert(network, prompts, generator), prompts)


def set_subnet(network: nn.Module, subnet: Subnet) -> None:
    """Set a supernet to one of its subnets."""
    blocks = [cast(vpt.PromptedBlock, block) for block in cast(nn.Sequential, network.blocks)]
    for block, (size, rank, _) in zip(blocks, subnet, strict=True):
        cast(houlsby.AdaptedMLP, block.block.mlp).adapter.size = size
        cast(ElasticLoRA, block.block.get_submodule("attn.qkv")).size = rank
    _set_prompts(blocks, [count for _, _, count in subnet])


def search_space(network: nn.Module, sizes: Sequence[int] = SearchSpace.sizes) -> SearchSpace:
    """Return the search space of a transformer."""
    blocks = transformer_blocks(network, "noah")
    return SearchSpace(len(blocks), width_of(network), tuple(sizes))


def _subnet_for(subnet: list[list[int]] | None, depth: int) -> Subnet:
    if subnet is None:  # for other depths than 12, the rows at the same relative depth
        return tuple(PUBLISHED[i * len(PUBLISHED) // depth] for i in range(depth))
    if len(subnet) != depth:
        raise UsageError(
            f"noah's subnet has {len(subnet)} rows, the network {depth} blocks.", "Give one row per block."
        )
    return tuple((adapter, rank, prompts) for adapter, rank, prompts in subnet)


def _attach_supernet(
    network: nn.Module, blocks: list[nn.Module], options: NOAHOptions, generator: torch.Generator
) -> None:
    width, largest = width_of(network), options.supernet
    for block in blocks:
        attention, layer = block.get_submodule("attn"), block.get_submodule("attn.qkv")
        down = uniform((largest, width), width**-0.5, network, generator)
        attention.qkv = ElasticLoRA(layer, down, 3 * width, options.scale)
        houlsby.insert(block, largest, options.scale, network, generator)
    vpt.insert(network, [largest] * len(blocks), generator)


def _set_prompts(blocks: list[vpt.PromptedBlock], sizes: list[int]) -> None:
    """Keep the prompts of a block until a later block has its own, or until the last block."""
    current = 0
    for i, (block, size) in enumerate(zip(blocks, sizes, strict=True)):
        current = size or current
        block.size = size
        block.drop = current if i + 1 == len(blocks) or sizes[i + 1] else 0
