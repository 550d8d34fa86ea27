"""NOAH (Zhang et al., 2022): Adapter, LoRA and VPT together, of a size of its own in every block.

Which sizes is searched for each task (search.py): a supernet, every module at its largest, is trained with a
random subnet set at each step (``choose``: only the first rows of its matrices count), subnets are
scored with it on held-out images, and the best is trained anew, as an ordinary adapter.

Without a search the subnet is the one published for SVHN, whose 431,686 numbers on ViT-B/16 are the table's 0.4 M
(ZhangYuanhan-AI/NOAH: experiments/NOAH/subnet/VTAB/ViT-B_prompt_svhn.yaml; the forward pass is in
model/supernet_vision_transformer_timm.py). Prompts stay among the tokens until a block has its own. The released
code also counts prompts before the first block, which that block throws away; they are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import UsageError
from . import houlsby, lora, vpt
from .bottleneck import transformer_blocks, uniform, width_of
from .subnets import SearchSpace, Subnet

DEFAULTS: dict[str, Any] = {
    "subnet": None,  # None: the published one
    "supernet": 0,  # the largest size of each module, of which a subnet is chosen; 0: that subnet only
    "scale": 1.0,
}
PUBLISHED: Subnet = tuple(
    zip(
        (5, 5, 5, 5, 5, 10, 5, 10, 5, 5, 5, 5),  # Adapter
        (5, 5, 5, 10, 5, 5, 5, 10, 10, 10, 10, 5),  # LoRA
        (10, 5, 5, 10, 5, 5, 5, 5, 5, 5, 5, 5),  # prompts
        strict=True,
    )
)


class ElasticLoRA(nn.Module):
    """A linear layer with LoRA of which only the first ``size`` ranks count."""

    def __init__(self, layer: nn.Module, down: Tensor, outputs: int, scale: float) -> None:
        super().__init__()
        self.layer = layer
        self.scale = scale
        self.size = len(down)
        self.down = nn.Parameter(down)
        self.up = nn.Parameter(down.new_zeros(outputs, len(down)))

    def forward(self, x: Tensor) -> Tensor:
        plain: Tensor = self.layer(x)
        if not self.size:
            return plain
        return plain + self.scale * F.linear(F.linear(x, self.down[: self.size]), self.up[:, : self.size])


def attach(network: nn.Module, options: dict[str, Any], generator: torch.Generator) -> None:
    """A subnet as an ordinary adapter, or the supernet of all of them."""
    blocks = transformer_blocks(network, "noah", "attn", "mlp")
    subnet = _for_depth(options["subnet"], len(blocks))
    if options["supernet"]:
        _attach_supernet(network, blocks, options["supernet"], options["scale"], generator)
        choose(network, ((options["supernet"],) * 3,) * len(blocks))
        return
    ranks = {name: rank for name, (_, rank, _) in zip(lora.targets(network), subnet, strict=True) if rank}
    if ranks:
        lora.inject(network, ranks, options["scale"], generator)
    for block, (size, _, _) in zip(blocks, subnet, strict=True):
        if size:
            houlsby.put(block, size, options["scale"], network, generator)
    prompts = [count for _, _, count in subnet]
    _carry(vpt.put(network, prompts, generator), prompts)


def choose(network: nn.Module, subnet: Subnet) -> None:
    """Set a supernet to one of its subnets."""
    blocks = [cast(vpt.Prompted, block) for block in cast(nn.Sequential, network.blocks)]
    for block, (size, rank, _) in zip(blocks, subnet, strict=True):
        cast(houlsby.After, block.block.mlp).adapter.size = size
        cast(ElasticLoRA, block.block.get_submodule("attn.qkv")).size = rank
    _carry(blocks, [count for _, _, count in subnet])


def space_of(network: nn.Module, sizes: Sequence[int] = SearchSpace.sizes) -> SearchSpace:
    """The subnets that a transformer can have."""
    blocks = transformer_blocks(network, "noah")
    return SearchSpace(len(blocks), width_of(network), tuple(sizes))


def checked(subnet: Any) -> list[list[int]] | None:
    """A subnet as lists, if it is one; None is the published one."""
    if subnet is None:
        return None
    try:
        rows = [[int(size) for size in row] for row in subnet]
    except (TypeError, ValueError):
        rows = []
    if not rows or any(len(row) != 3 or min(row) < 0 for row in rows):
        raise UsageError(
            f"noah's subnet cannot be {subnet!r}.",
            "It is [Adapter, LoRA, prompts] for every block, from 0 on.",
        )
    return rows


def _for_depth(subnet: list[list[int]] | None, depth: int) -> Subnet:
    if subnet is None:  # other depths than 12 take the rows that lie where theirs do
        return tuple(PUBLISHED[i * len(PUBLISHED) // depth] for i in range(depth))
    if len(subnet) != depth:
        raise UsageError(
            f"noah's subnet has {len(subnet)} rows, the network {depth} blocks.", "One row each."
        )
    return tuple((adapter, rank, prompts) for adapter, rank, prompts in subnet)


def _attach_supernet(
    network: nn.Module, blocks: list[nn.Module], largest: int, scale: float, generator: torch.Generator
) -> None:
    width = width_of(network)
    for block in blocks:
        attention, layer = block.get_submodule("attn"), block.get_submodule("attn.qkv")
        down = uniform((largest, width), width**-0.5, network, generator)
        attention.qkv = ElasticLoRA(layer, down, 3 * width, scale)
        houlsby.put(block, largest, scale, network, generator)
    vpt.put(network, [largest] * len(blocks), generator)


def _carry(blocks: list[vpt.Prompted], sizes: list[int]) -> None:
    """Prompts go on from block to block until one has its own, or the last is passed."""
    held = 0
    for i, (block, own) in enumerate(zip(blocks, sizes, strict=True)):
        held = own or held
        block.size = own
        block.drop = held if i + 1 == len(blocks) or sizes[i + 1] else 0
