"""What the transformers' adapters share: blocks to stand in, and a bottleneck.

    x → U σ(D x + d) + u    with    D: width → size,    U: size → width

U and u begin at zero, so that a network with a new bottleneck is the bare one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..backbones import family_of
from ..errors import UsageError

TRANSFORMERS = ("deit", "vision_transformer")


class Bottleneck(nn.Module):
    """Down, activation, up; only the first ``size`` of its channels count."""

    def __init__(self, down: Tensor, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        size, width = down.shape
        self.size = size
        self.activation = activation
        self.down = nn.Parameter(down)
        self.down_bias = nn.Parameter(down.new_zeros(size))
        self.up = nn.Parameter(down.new_zeros(width, size))
        self.up_bias = nn.Parameter(down.new_zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        kept = slice(self.size)
        inside = self.activation(F.linear(x, self.down[kept], self.down_bias[kept]))
        return F.linear(inside, self.up[:, kept], self.up_bias)


def quick_gelu(x: Tensor) -> Tensor:
    """x · σ(1.702 x), the activation of NOAH's Adapter and of Convpass."""
    return x * torch.sigmoid(1.702 * x)


def uniform(shape: tuple[int, ...], bound: float, network: nn.Module, generator: torch.Generator) -> Tensor:
    """Numbers from −bound to bound where the network's are; the same ones on every device."""
    like = next(network.parameters())
    return torch.empty(shape).uniform_(-bound, bound, generator=generator).to(like)


def transformer_blocks(network: nn.Module, adapter: str, *parts: str) -> list[nn.Module]:
    """The blocks of a transformer, each of which has to have ``parts``."""
    if family_of(network) not in TRANSFORMERS:
        raise UsageError(
            f"The adapter {adapter!r} works on vision transformers only, not on {type(network).__name__}.",
            "On this backbone choose film or lora.",
        )
    blocks = list(cast(nn.Sequential, network.blocks))
    for block in blocks:
        if missing := [part for part in parts if not hasattr(block, part)]:
            raise UsageError(
                f"The adapter {adapter!r} needs {missing[0]} in every block; {type(block).__name__} has none.",
                "On this backbone choose film or vpt.",
            )
    return blocks


def width_of(network: nn.Module) -> int:
    """The length of a token."""
    return cast(int, network.embed_dim)
