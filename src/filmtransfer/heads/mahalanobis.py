"""The head of Simple CNAPs: squared Mahalanobis distances to the class means.

    logit_c = −(z − μ_c)ᵀ Q_c⁻¹ (z − μ_c)        Q_c = λ_c·Σ_c + (1 − λ_c)·Σ_task + I,   λ_c = N_c / (N_c + 1)

The more examples a class has, the more its own covariance counts. No half and no determinant (Bateni et al., 2020), and
nothing is learned. Where N ≤ D no D×D matrix is formed: with the centred rows X and the projection H_c that takes the
mean of the rows of class c away from them and all else to 0,

    Q_c = I + Xᵀ R_c² X        R_c² = a·H_c + b·I,   R_c = (√(a + b) − √b)·H_c + √b·I,   a = λ_c/(N_c−1), b = (1−λ_c)/(N−1)
    dᵀQ_c⁻¹d = ‖d‖² − ‖L_c⁻¹ R_c X d‖²           L_c L_cᵀ = I + R_c XXᵀ R_c
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import torch
from torch import Tensor

from .gaussian import GaussianHead, Side, State, check_support, divide_by, memberships, rows_win


class Mahalanobis(GaussianHead):
    """C·D(D + 3)/2 numbers by the paper's count; stored by its centred support rows where N ≤ D."""

    name = "mahalanobis"

    def __init__(self, *, side: Side = "auto") -> None:
        super().__init__()
        self.side: Side = side

    def build(self, features: Tensor, labels: Tensor) -> State:
        check_support(features, labels)
        mean = features.mean(0)
        centred = features - mean
        if rows_win(self.side, *features.shape):
            return self.build_rows(mean, centred, labels)
        precise = centred.double()
        share, own, of_task = _weights(labels, precise)
        means = share.mT @ precise
        scatter = precise.mT @ precise
        identity = torch.eye(scatter.shape[0], dtype=scatter.dtype, device=scatter.device)
        factors = []
        for c in range(len(means)):
            within = precise[labels == c] - means[c]
            factors.append(
                torch.linalg.cholesky(own[c] * within.mT @ within + of_task[c] * scatter + identity)
            )
        return mean + means.to(mean), torch.stack(factors).to(mean)

    def build_rows(self, mean: Tensor, centred: Tensor, labels: Tensor) -> State:
        """The state from the centred rows, in float64."""
        precise = centred.double()
        share, own, of_task = _weights(labels, precise)
        gram = precise @ precise.mT
        members = (share > 0).to(precise).mT  # (C, N)
        counts = members.sum(1)
        project = (
            torch.diag_embed(members) - members[:, :, None] * members[:, None, :] / counts[:, None, None]
        )
        identity = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
        both, rest = torch.sqrt(own + of_task), torch.sqrt(of_task)
        root = (both - rest)[:, None, None] * project + rest[:, None, None] * identity
        lower = torch.linalg.cholesky(identity + root @ gram @ root)
        half: Tensor = torch.linalg.solve_triangular(lower, root, upper=False)
        return mean, centred, share, gram @ share, half

    def evaluate(self, state: State, query: Tensor) -> Tensor:
        if len(state) == 2:
            means, factors = state
            offsets = query[None] - means[:, None]  # (C, Q, D)
            white: Tensor = torch.linalg.solve_triangular(factors, offsets.mT, upper=False)
            return -(white * white).sum(1).mT
        mean, centred, share, gram_share, half = state
        z = query.double() - mean
        x = z @ centred.double().mT  # (Q, N)
        norms = (z * z).sum(1, keepdim=True) - 2 * x @ share + (share * gram_share).sum(0)
        inner = half @ (x.mT[None] - gram_share.mT[:, :, None])  # (C, N, Q)
        return -(norms - (inner * inner).sum(1).mT)

    def compact(self) -> dict[str, Tensor]:
        state = self.configured()
        if len(state) == 2:
            return {"means": state[0], "cholesky": state[1]}
        return {"mean": state[0], "rows": state[1], "labels": state[2].argmax(1)}

    def restore(self, tensors: Mapping[str, Tensor], counts: Tensor) -> Self:
        self.take(counts)
        if "rows" in tensors:
            with torch.no_grad():
                self.state = self.build_rows(tensors["mean"], tensors["rows"], tensors["labels"].cpu())
        else:
            self.state = (tensors["means"], tensors["cholesky"])
        return self

    @staticmethod
    def updateable(classes: int, features: int) -> int:
        return classes * features * (features + 3) // 2


def _weights(labels: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """1/N_c by example and class (N, C); λ_c / (N_c − 1) and (1 − λ_c) / (N − 1) by class (C)."""
    share = memberships(labels, int(labels.max()) + 1, rows)
    counts = (share > 0).sum(0).to(rows)
    trust = counts / (counts + 1)  # λ_c
    return share, trust / divide_by(counts, "n-1"), (1 - trust) / divide_by(len(rows), "n-1")
