"""Pixels as torch tensors: normalisation and resizing."""

from __future__ import annotations

import torch
from torch import Tensor

from ..data.pixels import PixelSpec


def normalise(pixels: Tensor, spec: PixelSpec) -> Tensor:
    """Convert uint8 pixels (B, 3, H, W) to float32, normalised by the backbone's mean and standard deviation."""
    mean = torch.tensor(spec.mean, device=pixels.device).view(1, 3, 1, 1)
    std = torch.tensor(spec.std, device=pixels.device).view(1, 3, 1, 1)
    return (pixels.float() / 255 - mean) / std


def resize(pixels: Tensor, size: int, interpolation: str = "bicubic") -> Tensor:
    """Return uint8 squares (N, 3, S, S) at another size, antialiased."""
    if pixels.shape[-1] == size:
        return pixels
    mode = interpolation if interpolation in ("bilinear", "bicubic") else "bicubic"
    parts = [
        torch.nn.functional.interpolate(part.float(), (size, size), mode=mode, antialias=True)
        for part in pixels.split(64)
    ]
    return torch.cat([part.round().clamp(0, 255).to(torch.uint8) for part in parts])
