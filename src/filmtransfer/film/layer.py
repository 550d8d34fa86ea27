"""FiLM (Perez et al., 2018): γ ⊙ a + β on the channels of a normalised activation a.

A norm ends in an affine transformation, w ⊙ x̂ + b, so FiLM after it is the same norm with other parameters:

    γ ⊙ (w ⊙ x̂ + b) + β  =  (γ ⊙ w) ⊙ x̂ + (γ ⊙ b + β)

This needs no extra pass over memory, and with γ = 1, β = 0 the backbone is unchanged bit for bit. If γ and β
have a row for each image (B, C), the images of one batch can belong to different updates.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import InputError

Norm = nn.BatchNorm2d | nn.GroupNorm | nn.LayerNorm


class FiLM(nn.Module):
    """A norm (and the activation that timm fuses with it) with trainable γ and β."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        if not isinstance(norm, Norm) or norm.weight is None or norm.bias is None:
            raise InputError(
                f"FiLM cannot replace a {type(norm).__name__}.",
                "It needs a BatchNorm2d, GroupNorm or LayerNorm with weight and bias.",
            )
        self.norm: Norm = norm
        self.gamma = nn.Parameter(torch.ones_like(self.norm.weight))
        self.beta = nn.Parameter(torch.zeros_like(self.norm.weight))
        # γ and β for each image of the next batch; None means one γ, β for all images.
        self.rows: tuple[Tensor, Tensor] | None = None

    def affine(self) -> tuple[Tensor, Tensor]:
        """Return the affine transformation of the norm with FiLM folded in: (γw, γb + β)."""
        return self.gamma * self.norm.weight, self.gamma * self.norm.bias + self.beta

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation of the norm with FiLM."""
        if self.rows is None:
            weight, bias = self.affine()
            return activate(self.norm, normalise(self.norm, x, weight, bias))
        gamma, beta = (broadcast_rows(self.norm, rows, x) for rows in self.rows)
        normalised = normalise(self.norm, x, self.norm.weight, self.norm.bias)
        return activate(self.norm, torch.addcmul(beta, gamma, normalised))


def normalise(norm: nn.Module, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Apply the norm with another affine transformation, or without one."""
    if isinstance(norm, nn.BatchNorm2d):
        # The batch statistics are frozen with the backbone, never those of a few support images.
        return F.batch_norm(x, norm.running_mean, norm.running_var, weight, bias, False, 0.0, norm.eps)
    if isinstance(norm, nn.GroupNorm):
        return F.group_norm(x, norm.num_groups, weight, bias, norm.eps)
    assert isinstance(norm, nn.LayerNorm)
    if _channels_first(norm):
        x = F.layer_norm(x.permute(0, 2, 3, 1), list(norm.normalized_shape), weight, bias, norm.eps)
        return x.permute(0, 3, 1, 2)
    return F.layer_norm(x, list(norm.normalized_shape), weight, bias, norm.eps)


def activate(norm: nn.Module, x: Tensor) -> Tensor:
    """Apply what timm fuses with the norm: dropout, then activation."""
    for name in ("drop", "act"):
        fused = getattr(norm, name, None)
        if isinstance(fused, nn.Module):
            x = fused(x)
    return x


def broadcast_rows(norm: nn.Module, rows: Tensor, x: Tensor) -> Tensor:
    """Reshape rows (B, C) so that they broadcast over the pixels or tokens of x."""
    if len(rows) != len(x):
        raise InputError(
            f"The batch has {len(x)} images, but FiLM has parameters for {len(rows)}.",
            "Give one row per image.",
        )
    if isinstance(norm, nn.LayerNorm) and not _channels_first(norm):
        return rows[(slice(None), *[None] * (x.ndim - 2))]
    return rows[(..., *[None] * (x.ndim - 2))]  # indexing keeps the batch axis of an exported graph by name


def _channels_first(norm: nn.LayerNorm) -> bool:
    """Return whether this is timm's LayerNorm2d, a LayerNorm over the channels of (B, C, H, W)."""
    return type(norm).__name__.startswith("LayerNorm2d")
