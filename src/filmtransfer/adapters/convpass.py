"""Convpass (Jie and Deng, 2022): a convolutional bypass beside the attention and beside the MLP.

1×1 → 3×3 → 1×1 convolutions over the patches laid out as the image they come from. The class token (and any
other token that is no patch) is convolved on its own, as an image of 1×1: it meets the middle of the kernel only.

Width h = 8 with biases, QuickGELU before and behind the 3×3, which begins as the identity, are the released
settings (JieShibo/PETL-ViT: convpass/vtab/convpass.py). s was chosen there for each task from 0.01 to 10
(convpass/vtab/configs); 1 is the code's own default. No dropout: our networks stay in eval mode.
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import InputError
from .bottleneck import quick_gelu, transformer_blocks, uniform, width_of

DEFAULTS: dict[str, Any] = {"size": 8, "scale": 1.0}


class Convpass(nn.Module):
    """The bypass: tokens (B, prefix + H·H, width) in and out."""

    def __init__(self, down: Tensor, prefix: int) -> None:
        super().__init__()
        size, width = down.shape
        self.prefix = prefix  # tokens before the patches
        self.down = nn.Parameter(down)
        self.down_bias = nn.Parameter(down.new_zeros(size))
        self.middle = nn.Parameter(F.pad(torch.eye(size).to(down)[:, :, None, None], (1, 1, 1, 1)))
        self.middle_bias = nn.Parameter(down.new_zeros(size))
        self.up = nn.Parameter(down.new_zeros(width, size))
        self.up_bias = nn.Parameter(down.new_zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        inside = quick_gelu(F.linear(x, self.down, self.down_bias))
        alone, patches = inside[:, : self.prefix], inside[:, self.prefix :]
        alone = F.linear(alone, self.middle[:, :, 1, 1], self.middle_bias)
        image = F.conv2d(_image(patches), self.middle, self.middle_bias, padding=1)
        inside = torch.cat([alone, image.flatten(2).transpose(1, 2)], dim=1)
        return F.linear(quick_gelu(inside), self.up, self.up_bias)


class Beside(nn.Module):
    """A layer of the backbone and, parallel to it, a bypass: f(x) + s · g(x)."""

    def __init__(self, layer: nn.Module, bypass: Convpass, scale: float) -> None:
        super().__init__()
        self.layer = layer
        self.bypass = bypass
        self.scale = scale

    def forward(self, x: Tensor, **settings: Any) -> Tensor:
        beside: Tensor = self.layer(x, **settings) + self.scale * self.bypass(x)
        return beside


def attach(network: nn.Module, options: dict[str, Any], generator: torch.Generator) -> None:
    """Two bypasses in every block."""
    blocks = transformer_blocks(network, "convpass", "attn", "mlp")
    size, width = options["size"], width_of(network)
    prefix = cast(int, network.num_prefix_tokens)
    for block in blocks:
        for part in ("attn", "mlp"):
            down = uniform((size, width), math.sqrt(6 / (size + width)), network, generator)
            bypass = Convpass(down, prefix)
            setattr(block, part, Beside(block.get_submodule(part), bypass, options["scale"]))


def _image(patches: Tensor) -> Tensor:
    """(B, H·H, C) → (B, C, H, H)."""
    batch, count, channels = patches.shape
    side = math.isqrt(count)
    if side * side != count:
        raise InputError(f"{count} patches are not a square image.", "Convpass needs square images.")
    return patches.transpose(1, 2).reshape(batch, channels, side, side)
