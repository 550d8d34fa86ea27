"""Heads as plain products of float32 tensors, so that they can be traced into a graph.

A logit is split into a part that distinguishes the classes and a part that all of them share,

    logit_c = r_c(z) + s(z)        p(y=c | z) = softmax(r_c / T + log π_c)

The shared part s can be hundreds of times larger; without it the softmax loses no digits. All matrices are computed
in float64 and stored as float32.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Scores(nn.Module):
    """Features (B, D) → r (B, C) and s (B, 1), or (B, C) zeros."""

    def keep(self, **tensors: Tensor) -> None:
        """Register float32 buffers."""
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor.detach().cpu().contiguous().float())


class AffineScores(Scores):
    """r = W (z − m) + b, s = −a ‖z − m‖²."""

    weight: Tensor
    bias: Tensor
    mean: Tensor

    def __init__(self, weight: Tensor, bias: Tensor, mean: Tensor | None = None, square: float = 0.0) -> None:
        super().__init__()
        self.square, self.centred = square, mean is not None
        self.keep(weight=weight.mT, bias=bias, mean=torch.zeros(1) if mean is None else mean)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Compute r and s."""
        z = z - self.mean if self.centred else z
        relative = z @ self.weight + self.bias
        if not self.square:
            return relative, torch.zeros_like(relative)
        return relative, -self.square * (z * z).sum(1, keepdim=True)


class QuadraticScores(Scores):
    """r_c = b_c − a ‖W_c v − o_c‖² with v = z − m, or its coordinates in an orthonormal basis.

    With a basis V (D, R) what of z lies outside its span is at the same distance from every class:
    s = −a ‖(I − VVᵀ)(z − m)‖².
    """

    mean: Tensor
    whiten: Tensor
    offset: Tensor
    bias: Tensor
    basis: Tensor

    def __init__(
        self,
        mean: Tensor,
        whiten: Tensor,
        centres: Tensor,
        bias: Tensor,
        scale: float,
        basis: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.classes, self.rows = whiten.shape[:2]
        self.scale, self.projected = scale, basis is not None
        offset = torch.einsum("cde,ce->cd", whiten, centres)
        self.keep(mean=mean, whiten=whiten.flatten(0, 1).mT, offset=offset.flatten(), bias=bias)
        self.keep(basis=torch.zeros(1) if basis is None else basis)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Compute r and s."""
        z = z - self.mean
        v = z @ self.basis if self.projected else z
        white = (v @ self.whiten - self.offset).reshape(-1, self.classes, self.rows)
        relative = self.bias - self.scale * (white * white).sum(2)
        if not self.projected:
            return relative, torch.zeros_like(relative)
        outside = z - v @ self.basis.t()
        return relative, -self.scale * (outside * outside).sum(1, keepdim=True)
