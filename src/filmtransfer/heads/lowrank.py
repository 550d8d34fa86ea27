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

from ..arrays import Array, eye, namespace, solve_lower, solve_upper
from ..arrays import cholesky as factorise


def factor(gram: Array, scale: Array, ridge: Array) -> Array:
    """Compute L (N, N) with L Lᵀ = e₃·I + a·K."""
    return factorise(ridge * eye(len(gram), gram) + scale * gram)


def log_determinant(cholesky: Array, ridge: Array, dimension: int) -> Array:
    """Compute log|Σ| from the factor L of the N×N side."""
    return (dimension - len(cholesky)) * namespace(ridge).log(ridge) + log_determinant_of(cholesky)


def log_determinant_of(cholesky: Array) -> Array:
    """Compute log|L Lᵀ| = 2 Σ log diag L, for one factor or a stack of them."""
    xp = namespace(cholesky)
    return 2 * xp.log(xp.diagonal(cholesky, 0, -2, -1)).sum(-1)


def solve(rows: Array, cholesky: Array, scale: Array, ridge: Array, targets: Array) -> Array:
    """Apply Σ⁻¹ to each row of ``targets`` (C, D), whether or not it lies in the span of X."""
    _, inner = within(cholesky, rows @ targets.mT)
    return (targets - scale * (inner.mT @ rows)) / ridge


def within(cholesky: Array, right: Array) -> tuple[Array, Array]:
    """Compute L⁻¹ r, and from it (L Lᵀ)⁻¹ r."""
    half = solve_lower(cholesky, right)
    return half, solve_upper(cholesky.mT, half)
