"""Gaussians with a low-rank-plus-ridge covariance, computed on the N rows instead of the D columns.

    Σ = e₃·I + a·XᵀX,     X (N, D) centred support features

With K = XXᵀ (N, N) and the Cholesky factor L Lᵀ = e₃·I + a·K, Woodbury's identity and the determinant
lemma give

    Σ⁻¹Xᵀ   = Xᵀ (L Lᵀ)⁻¹
    Σ⁻¹     = (I − a·Xᵀ (L Lᵀ)⁻¹ X) / e₃
    log|Σ|  = (D − N) log e₃ + 2 Σ log diag L

Features enter only through K and through X(z − m): no D×D matrix is ever formed.
"""

from __future__ import annotations

import torch
from torch import Tensor

# What a factorisation raises when features or weights are no longer finite.
SingularError: type[Exception] = torch.linalg.LinAlgError  # type: ignore[attr-defined]


def factor(gram: Tensor, scale: Tensor, ridge: Tensor) -> Tensor:
    """Compute L (N, N) with L Lᵀ = e₃·I + a·K."""
    identity = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    lower: Tensor = torch.linalg.cholesky(ridge * identity + scale * gram)
    return lower


def log_determinant(cholesky: Tensor, ridge: Tensor, dimension: int) -> Tensor:
    """Compute log|Σ| from the factor L of the N×N side."""
    return (dimension - len(cholesky)) * torch.log(ridge) + log_determinant_of(cholesky)


def log_determinant_of(cholesky: Tensor) -> Tensor:
    """Compute log|L Lᵀ| = 2 Σ log diag L, for one factor or a stack of them."""
    return 2 * torch.log(torch.diagonal(cholesky, dim1=-2, dim2=-1)).sum(-1)


def solve(rows: Tensor, cholesky: Tensor, scale: Tensor, ridge: Tensor, targets: Tensor) -> Tensor:
    """Apply Σ⁻¹ to each row of ``targets`` (C, D), whether or not it lies in the span of X."""
    _, inner = within(cholesky, rows @ targets.mT)
    return (targets - scale * (inner.mT @ rows)) / ridge


def within(cholesky: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Compute L⁻¹ r, and from it (L Lᵀ)⁻¹ r."""
    half: Tensor = torch.linalg.solve_triangular(cholesky, right, upper=False)
    solved: Tensor = torch.linalg.solve_triangular(cholesky.mT, half, upper=True)
    return half, solved
