"""A small transformer with random weights, and functions that attach, perturb and read an adapter."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from filmtransfer import adapters
from filmtransfer.backbones import run_parts, stages

import timm  # isort: skip  (after filmtransfer, which makes it importable)

SIDE = 32  # 4 patches of 16


def transformer(
    depth: int = 3, *, name: str = "vit_tiny_patch16_224", dtype: torch.dtype = torch.float64, **settings: Any
) -> nn.Module:
    """Return a ViT of a few narrow blocks whose attention is not uniform."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        sizes = {"depth": depth, "embed_dim": 24, "num_heads": 3, "img_size": SIDE, **settings}
        model: nn.Module = timm.create_model(name, num_classes=0, dynamic_img_size=True, **sizes)
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.3)
    return model.to(dtype).eval()


def attach_adapter(network: nn.Module, name: str, seed: int = 0, **options: Any) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    return adapters.attach(network, name, generator=generator, options=options)


def images(count: int = 5, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(count, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1)).to(dtype)


def trainable(network: nn.Module) -> dict[str, nn.Parameter]:
    return {name: p for name, p in network.named_parameters() if p.requires_grad}


@torch.no_grad()
def perturb(network: nn.Module, seed: int = 2) -> None:
    """Add noise to every trainable parameter."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in trainable(network).values():
        parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))


def run_stages(network: nn.Module, x: Tensor) -> Tensor:
    """Return the features computed part by part."""
    return run_parts(network, [part for stage in stages(network) for part in stage.parts], x)
