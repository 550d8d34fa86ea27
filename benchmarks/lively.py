"""Random networks whose features are of ordinary scale and differ between images, for comparing two ways to compute them.

timm's initial weights are made for training to start from: whole branches are multiplied by zero or 1e-6, and batch norms have
seen nothing, so the features of a random EfficientNet-B0 are the same for all images to four digits. Any graph
agrees with those. Here every branch counts, and every batch norm has the statistics of images like those that are compared.
With the statistics of other images (white noise) features grow from norm to norm and no digit is left (docs/log.md).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

NORMS = (nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm)
SCALES = ("gamma", "gamma_1", "gamma_2")  # of ConvNeXt and of transformers with layer scale
TOKENS = ("pos_embed", "cls_token", "reg_token", "dist_token")


@torch.no_grad()
def liven(model: nn.Module, images: Tensor, *, generator: torch.Generator) -> nn.Module:
    """Set all weights anew, then the statistics of the batch norms by one pass of normalised ``images``; in place."""
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
        if isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()
            module.momentum = None  # of all batches alike: there is one
    if any(isinstance(module, nn.BatchNorm2d) for module in model.modules()):
        model.train()(images)
    return model.eval()
