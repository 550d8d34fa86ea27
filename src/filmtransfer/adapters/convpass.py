"""Convpass (Jie and Deng, 2022): a convolutional bypass parallel to the attention and to the MLP.

1×1 → 3×3 → 1×1 convolutions over the patches, arranged as in the image. The class token (and any other token that
is not a patch) is convolved on its own, as an image of 1×1, so that only the centre of the kernel is applied to it.

Width h = 8 with biases, QuickGELU before and after the 3×3, which is initially the identity, are the released
settings (JieShibo/PETL-ViT: convpass/vtab/convpass.py). There s was chosen for each task from 0.01 to 10
(convpass/vtab/configs); 1 is the default of the code. There is no dropout, because our networks stay in eval mode.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import InputError
from .adapter import Bottleneck, BottleneckOptions, quick_gelu, transformer_blocks, uniform, width_of


class Convpass(Bottleneck):
    """The bypass: tokens (B, prefix + H·H, width) in and out."""

    def __init__(self, down: Tensor, prefix: int) -> None:
        super().__init__(down, quick_gelu)
        self.prefix = prefix  # number of tokens before the patches
        self.middle = nn.Parameter(F.pad(torch.eye(self.size).to(down)[:, :, None, None], (1, 1, 1, 1)))
        self.middle_bias = nn.Parameter(down.new_zeros(self.size))

    def forward(self, x: Tensor) -> Tensor:
        """Apply the three convolutions to the tokens."""
        hidden = self.activation(F.linear(x, self.down, self.down_bias))
        others, patches = hidden[:, : self.prefix], hidden[:, self.prefix :]
        others = F.linear(others, self.middle[:, :, 1, 1], self.middle_bias)
        image = F.conv2d(_image(patches), self.middle, self.middle_bias, padding=1)
        hidden = torch.cat([others, image.flatten(2).transpose(1, 2)], dim=1)
        return F.linear(self.activation(hidden), self.up, self.up_bias)


class BypassedLayer(nn.Module):
    """A layer of the backbone with a bypass parallel to it: f(x) + s · g(x)."""

    def __init__(self, layer: nn.Module, bypass: Convpass, scale: float) -> None:
        super().__init__()
        self.layer = layer
        self.bypass = bypass
        self.scale = scale

    def forward(self, x: Tensor, **arguments: object) -> Tensor:
        """Return the sum of the layer and the scaled bypass."""
        output: Tensor = self.layer(x, **arguments) + self.scale * self.bypass(x)
        return output


def attach(network: nn.Module, options: BottleneckOptions, generator: torch.Generator) -> None:
    """Add two bypasses to every block."""
    blocks = transformer_blocks(network, "convpass", "attn", "mlp")
    size, width = options.size, width_of(network)
    prefix = cast(int, network.num_prefix_tokens)
    for block in blocks:
        for part in ("attn", "mlp"):
            down = uniform((size, width), math.sqrt(6 / (size + width)), network, generator)
            layer = BypassedLayer(block.get_submodule(part), Convpass(down, prefix), options.scale)
            setattr(block, part, layer)


def _image(patches: Tensor) -> Tensor:
    """Reshape (B, H·H, C) to (B, C, H, H)."""
    batch, count, channels = patches.shape
    side = math.isqrt(count)
    if side * side != count:
        raise InputError(f"{count} patches are not a square image.", "Convpass needs square images.")
    return patches.transpose(1, 2).reshape(batch, channels, side, side)
