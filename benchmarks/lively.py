"""Random networks whose features are of ordinary scale and differ between images, for comparing two ways to compute them.

timm's initial weights are made for training to start from: whole branches are multiplied by zero or 1e-6, and batch norms have
seen nothing, so that the features of a random EfficientNet-B0 are the same for all images to three digits. Any graph agrees with
those. Here every branch counts, and every batch norm has the statistics of images like those that are compared: with those of
white noise features grow from block to block, and float32 has no digit left (docs/log.md).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

NORMS = (nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm)
SCALES = ("gamma", "gamma_1", "gamma_2")  # of ConvNeXt and of transformers with layer scale
BRANCH = 0.2  # of a residual block beside what it is added to; as large as that, deep networks run away
TOKENS = ("pos_embed", "cls_token", "reg_token", "dist_token")


@torch.no_grad()
def liven(model: nn.Module, images: Tensor, *, generator: torch.Generator) -> nn.Module:
    """All weights anew, then the statistics of the batch norms by one pass of normalised ``images``; in place."""
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
    hooks = [m.register_forward_pre_hook(_take) for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    if hooks:
        model.eval()(images)
    for hook in hooks:
        hook.remove()
    return model.eval()


def _take(norm: Any, inputs: tuple[Tensor, ...]) -> None:
    """The statistics of what the norm is about to see; what it gives is then what the next one will see, too.

    No channel's variance is taken below the mean of all: a channel that hardly moves would be blown up for the first image that is
    unlike these, and in a network of fifty blocks so would everything behind it.
    """
    variance, mean = torch.var_mean(inputs[0], (0, 2, 3))
    norm.running_mean.copy_(mean)
    norm.running_var.copy_(variance.clamp(min=float(variance.mean())))
