"""Gaussians with a low-rank-plus-ridge covariance, worked out among N rows instead of D columns.

    Σ = e₃·I + Xᵀ A X,     X (N, D) centred support features,  A (N, N) symmetric, A ⪰ 0

With R = A^½, K = X Xᵀ (N, N) and the Cholesky factor L Lᵀ = e₃·I + R K R, Woodbury's identity and
the determinant lemma give

    Σ⁻¹     = (I − Xᵀ R (L Lᵀ)⁻¹ R X) / e₃
    log|Σ|  = (D − N) log e₃ + 2 Σ log diag L

Every covariance of the paper has A = a·I + b·P with an orthogonal projector P (which examples
belong to class c, and "minus their mean"), whose root is √a·I + (√(a+b) − √a)·P. The root is a
plain formula in a and b, so nothing is lost when a or b is 0.
Features enter only through K and through x = X(z − m): no D×D matrix is ever formed.
"""

from __future__ import annotations

import torch
from torch import Tensor

# What a factorisation raises when features or weights are no longer numbers.
SingularError: type[Exception] = torch.linalg.LinAlgError  # type: ignore[attr-defined]


def root_of_projector_mix(a: Tensor, b: Tensor, projector: Tensor) -> Tensor:
    """(a·I + b·P)^½ for an orthogonal projector P; a and b may be 0."""
    identity = torch.eye(projector.shape[-1], dtype=projector.dtype, device=projector.device)
    # √ has an infinite slope at 0; a weight that is exactly 0 is a constant, so its slope is cut.
    alone, both = _root(a), _root(a + b)
    return alone * identity + (both - alone) * projector


def factor(gram: Tensor, root: Tensor, ridge: Tensor) -> Tensor:
    """L (…, N, N) with L Lᵀ = e₃·I + R K R."""
    identity = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    inner = root @ gram @ root
    inner = (inner + inner.mT) / 2
    lower: Tensor = torch.linalg.cholesky(ridge * identity + inner)
    return lower


def half_inverse(cholesky: Tensor, root: Tensor) -> Tensor:
    """T = L⁻¹ R, so that Σ⁻¹ = (I − Xᵀ Tᵀ T X) / e₃."""
    half: Tensor = torch.linalg.solve_triangular(cholesky, root.expand_as(cholesky), upper=False)
    return half


def log_determinant(cholesky: Tensor, ridge: Tensor, dimension: int) -> Tensor:
    """log|Σ| from the factor L of the N×N side."""
    rows = cholesky.shape[-1]
    diagonal = torch.diagonal(cholesky, dim1=-2, dim2=-1)
    return (dimension - rows) * torch.log(ridge) + 2 * torch.log(diagonal).sum(-1)


def solve_span(gram: Tensor, half: Tensor, coefficients: Tensor, ridge: Tensor) -> Tensor:
    """Coefficients of Σ⁻¹ Xᵀ s in the rows of X:  Σ⁻¹ Xᵀ s = Xᵀ · solve_span(…, s)."""
    return (coefficients - half.mT @ (half @ (gram @ coefficients))) / ridge


def _root(value: Tensor) -> Tensor:
    zero = value == 0
    return torch.where(zero, value, torch.sqrt(torch.where(zero, torch.ones_like(value), value)))
