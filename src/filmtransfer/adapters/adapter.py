"""What adapters share: their declaration, access to the blocks of a transformer, and a bottleneck.

    x → U σ(D x + d) + u    with    D: width → size,    U: size → width

U and u are initially zero, so that a new bottleneck does not change the features.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..backbones import family_of
from ..errors import UsageError

TRANSFORMERS = ("deit", "vision_transformer")
Options = TypeVar("Options")
Value = TypeVar("Value")


@dataclass(frozen=True)
class Adapter(Generic[Options]):
    """An adapter: ``attach`` inserts its parameters into a frozen network, in place."""

    options: type[Options]  # a dataclass whose fields are made by ``option``
    attach: Callable[[nn.Module, Options, torch.Generator], None]


def option(default: Value, help: str, check: Callable[[object], Value]) -> Value:
    """Return a field with a default, a help text and a function that checks and converts values."""
    value: Value = field(default=default, metadata={"help": help, "check": check})
    return value


def integer_from(minimum: int) -> Callable[[object], int]:
    """Return a check for integers from ``minimum`` on."""

    def check(value: object) -> int:
        if not isinstance(value, (int, float)) or isinstance(value, bool) or value % 1 or value < minimum:
            raise ValueError(f"It is a whole number from {minimum} on.")
        return int(value)

    return check


def finite(value: object) -> float:
    """Check that a value is a finite number."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError("It is a finite number.")
    return float(value)


@dataclass(frozen=True)
class BottleneckOptions:
    """The options of an adapter with a bottleneck or bypass in every block."""

    size: int = option(8, "channels of the bottleneck", integer_from(1))
    scale: float = option(1.0, "factor s of its output", finite)


class Bottleneck(nn.Module):
    """Down-projection, activation and up-projection, of which only the first ``size`` channels are used."""

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
        """Return U σ(D x + d) + u."""
        used = slice(self.size)
        hidden = self.activation(F.linear(x, self.down[used], self.down_bias[used]))
        return F.linear(hidden, self.up[:, used], self.up_bias)


def quick_gelu(x: Tensor) -> Tensor:
    """Return x · σ(1.702 x), the activation of NOAH's Adapter and of Convpass."""
    return x * torch.sigmoid(1.702 * x)


def uniform(shape: tuple[int, ...], bound: float, network: nn.Module, generator: torch.Generator) -> Tensor:
    """Return random values in [−bound, bound] on the network's device, the same ones for every device."""
    like = next(network.parameters())
    return torch.empty(shape).uniform_(-bound, bound, generator=generator).to(like)


def transformer_blocks(network: nn.Module, adapter: str, *parts: str) -> list[nn.Module]:
    """Return the blocks of a transformer, each of which has to have ``parts``."""
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
    """Return the dimension of a token."""
    return cast(int, network.embed_dim)
