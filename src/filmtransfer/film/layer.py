"""FiLM: γ ⊙ a + β on the channels of a normalised activation a.

A norm ends in its own affine, w ⊙ x̂ + b, so FiLM after it is the same norm with other numbers:

    γ ⊙ (w ⊙ x̂ + b) + β  =  (γ ⊙ w) ⊙ x̂ + (γ ⊙ b + β)

No extra pass over memory, and at γ = 1, β = 0 the bare backbone bit for bit. If γ and β have a
row for each image (B, C), rows of one batch belong to different updates.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import InputError


class FiLM(nn.Module):
    """Takes the place of a norm (and of the activation that timm fuses with it)."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        known = isinstance(norm, (nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm))
        if not known or norm.weight is None or norm.bias is None:
            raise InputError(
                f"FiLM cannot take the place of a {type(norm).__name__}.",
                "It needs a BatchNorm2d, GroupNorm or LayerNorm with weight and bias.",
            )
        self.norm = norm
        self.gamma = nn.Parameter(torch.ones_like(self._weight))
        self.beta = nn.Parameter(torch.zeros_like(self._weight))
        # A row for each image of the next batch; None means one γ, β for all.
        self.rows: tuple[Tensor, Tensor] | None = None

    @property
    def _weight(self) -> Tensor:
        return cast(Tensor, self.norm.weight)

    @property
    def _bias(self) -> Tensor:
        return cast(Tensor, self.norm.bias)

    def affine(self) -> tuple[Tensor, Tensor]:
        """The norm's affine with FiLM folded in: (γw, γb + β)."""
        return self.gamma * self._weight, self.gamma * self._bias + self.beta

    def forward(self, x: Tensor) -> Tensor:
        if self.rows is None:
            weight, bias = self.affine()
            return _after(self.norm, _normalise(self.norm, x, weight, bias))
        gamma, beta = (_beside(self.norm, rows, x) for rows in self.rows)
        plain = _normalise(self.norm, x, self._weight, self._bias)
        return _after(self.norm, torch.addcmul(beta, gamma, plain))


def _normalise(norm: nn.Module, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """The norm's own arithmetic with another affine, or with none."""
    if isinstance(norm, nn.BatchNorm2d):
        # Batch statistics are frozen with the backbone: never those of a few support images.
        return F.batch_norm(x, norm.running_mean, norm.running_var, weight, bias, False, 0.0, norm.eps)
    if isinstance(norm, nn.GroupNorm):
        return F.group_norm(x, norm.num_groups, weight, bias, norm.eps)
    assert isinstance(norm, nn.LayerNorm)
    if _channels_first(norm):
        x = F.layer_norm(x.permute(0, 2, 3, 1), list(norm.normalized_shape), weight, bias, norm.eps)
        return x.permute(0, 3, 1, 2)
    return F.layer_norm(x, list(norm.normalized_shape), weight, bias, norm.eps)


def _after(norm: nn.Module, x: Tensor) -> Tensor:
    """What timm fuses behind the norm: drop, then activation."""
    for name in ("drop", "act"):
        fused = getattr(norm, name, None)
        if isinstance(fused, nn.Module):
            x = fused(x)
    return x


def _beside(norm: nn.Module, rows: Tensor, x: Tensor) -> Tensor:
    """(B, C) → a shape that broadcasts over the pixels or tokens of x."""
    if len(rows) != len(x):
        raise InputError(
            f"A batch of {len(x)} images met FiLM numbers for {len(rows)}.", "One row per image."
        )
    last = isinstance(norm, nn.LayerNorm) and not _channels_first(norm)
    pixels = [1] * (x.ndim - 2)
    channels = rows.shape[1]  # the batch is what is left open, so that it stays open in an exported graph
    return rows.reshape([-1, *pixels, channels] if last else [-1, channels, *pixels])


def _channels_first(norm: nn.LayerNorm) -> bool:
    """timm's LayerNorm2d: a LayerNorm over the channels of (B, C, H, W)."""
    return type(norm).__name__.startswith("LayerNorm2d")
