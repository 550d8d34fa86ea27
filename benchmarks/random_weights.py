"""Random networks whose features have a realistic scale and differ between images, for parity tests.

The initial weights of timm are meant for the start of training: some branches are multiplied by zero or 1e-6, and batch norms
have no statistics, so that the features of a random EfficientNet-B0 agree to three digits for all images, and any graph
reproduces them. Here every branch contributes, and every batch norm has the statistics of images like those that are
compared: with statistics of white noise features grow from block to block until float32 has no digit left (docs/log.md).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

NORMS = (nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm)
SCALES = ("gamma", "gamma_1", "gamma_2")  # of ConvNeXt and of transformers with layer scale
BRANCH = 0.2  # scale of a residual branch relative to its input; at 1, features of deep networks explode
TOKENS = ("pos_embed", "cls_token", "reg_token", "dist_token")


@torch.no_grad()
def randomize_weights(model: nn.Module, images: Tensor, *, generator: torch.Generator) -> nn.Module:
    """Draw all weights, then set the statistics of the batch norms by one pass of normalised ``images``; in place."""
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            module.weight.normal_(0, module.weight[0].numel() ** -0.5, generator=generator)
        elif isinstance(module, NORMS) and module.weight is not None:
            module.weight.normal_(1, 0.1, generator=generator)
            module.bias.normal_(0, 0.1, generator=generator)
        else:
            for name, parameter in module.named_parameters(recurse=False):
                if name in SCALES:
                    parameter.fill_(0.5)
                elif name in TOKENS:
                    parameter.normal_(0, 0.5, generator=generator)
    for block in [m for m in model.modules() if hasattr(m, "drop_path") and getattr(m, "has_skip", True)]:
        within = [(name, m) for name, m in block.named_modules() if "downsample" not in name]
        for norm in [m for _, m in within if isinstance(m, nn.BatchNorm2d)][-1:]:
            norm.weight.mul_(BRANCH)
    hooks = [
        m.register_forward_pre_hook(_set_statistics) for m in model.modules() if isinstance(m, nn.BatchNorm2d)
    ]
    if hooks:
        model.eval()(images)
    for hook in hooks:
        hook.remove()
    return model.eval()


def _set_statistics(norm: Any, inputs: tuple[Tensor, ...]) -> None:
    """Set the statistics of the norm's input before it is normalised, so that the next norm gets its final input.

    The variance of a channel is at least the mean over all channels: a channel with little variance would be amplified for the
    first image that differs from these, and in a network of fifty blocks so would everything after it.
    """
    variance, mean = torch.var_mean(inputs[0], (0, 2, 3))
    norm.running_mean.copy_(mean)
    norm.running_var.copy_(variance.clamp(min=float(variance.mean())))
