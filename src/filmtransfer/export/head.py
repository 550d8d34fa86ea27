"""The four heads as plain products of float32 numbers, so that they can be written into a graph.

A logit is split into what tells classes apart and what is the same for all of them,

    logit_c = r_c(z) + s(z)        p(y=c | z) = softmax(r_c / temperature + log π_c)

The shared part s can be hundreds of times larger; left out of the softmax it costs no digits. LDA, the linear head and
ProtoNets have a linear r. QDA on the rows' side (heads/qda.py) works in float64 because of small differences
of large numbers; here it is rewritten so that there are none. With the singular values X = U S Vᵀ of the centred rows and
Λ = e₃ + a·S², the classes' common covariance is whitened by v = Λ^(−½) Vᵀ(z − m), and with E_c = half_c (U S Λ^(−½))_c

    −2 logit_c = ‖(I − VVᵀ)(z − m)‖²/e₃ + ‖v‖² − 2 v·v_c + ‖v_c‖² − ‖E_c (v − v_c)‖² + log|Σ_c|

which is the same head to rounding (all matrices are computed in float64 and then written as float32).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..heads import LDA, QDA, GaussianHead, Linear, ProtoNets


class HeadGraph(nn.Module):
    """Features (B, D) → probabilities (B, C) and logits (B, C)."""

    log_prior: Tensor

    def __init__(self, scores: nn.Module, log_prior: Tensor, temperature: float) -> None:
        super().__init__()
        self.scores = scores
        self.register_buffer("log_prior", log_prior.float())
        self.temperature = float(temperature)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        relative, shared = self.scores(features)
        weighed = relative / self.temperature + self.log_prior
        return torch.softmax(weighed, dim=1), relative + shared


class _Linear(nn.Module):
    """r = W (z − m) + b, s = −w ‖z − m‖²."""

    weight: Tensor
    bias: Tensor
    mean: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor, mean: Tensor | None = None, square: float = 0.0) -> None:
        super().__init__()
        self.square = square
        self.register_buffer("weight", weight.mT.contiguous().float())
        self.register_buffer("bias", bias.float())
        self.register_buffer("mean", None if mean is None else mean.float())

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        z = z if self.mean is None else z - self.mean
        relative = z @ self.weight + self.bias
        if not self.square:
            return relative, torch.zeros_like(relative)
        return relative, -self.square * (z * z).sum(1, keepdim=True)


class _Rows(nn.Module):
    """QDA from its centred support rows."""

    mean: Tensor
    basis: Tensor
    whiten: Tensor
    middle: Tensor
    bias: Tensor
    own: Tensor
    offset: Tensor

    def __init__(self, state: tuple[Tensor, ...]) -> None:
        super().__init__()
        mean, centred, share, _, _, places, half, log_det, scale, ridge = (
            t if t.dtype == torch.long else t.double() for t in state
        )
        left, spread, right = torch.linalg.svd(centred, full_matrices=False)
        whiten = (ridge + scale * spread**2) ** -0.5
        middle = whiten * (share.mT @ centred @ right.mT)  # v_c (C, r)
        own = half @ (left * (spread * whiten))[places]  # E_c (C, N_max, r)
        offset = torch.einsum("cnr,cr->cn", own, middle)
        self.classes, self.rows = own.shape[:2]
        self.ridge = float(ridge)
        for name, tensor in {
            "mean": mean,
            "basis": right.mT,
            "whiten": whiten,
            "middle": middle.mT,
            "bias": -((middle * middle).sum(1) + log_det) / 2,
            "own": own.flatten(0, 1).mT,
            "offset": offset.flatten(),
        }.items():
            self.register_buffer(name, tensor.contiguous().float())

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        z = z - self.mean
        within = z @ self.basis
        v = within * self.whiten
        own = (v @ self.own - self.offset).reshape(-1, self.classes, self.rows)
        relative = v @ self.middle + self.bias + (own * own).sum(2) / 2
        outside = z - within @ self.basis.t()  # what of z no support row shows
        distance = (outside * outside).sum(1, keepdim=True) / self.ridge + (v * v).sum(1, keepdim=True)
        return relative, -distance / 2


class _Dense(nn.Module):
    """QDA from a Cholesky factor for each class (more rows than features)."""

    mean: Tensor
    whiten: Tensor
    offset: Tensor
    bias: Tensor

    def __init__(self, state: tuple[Tensor, ...]) -> None:
        super().__init__()
        means, cholesky, log_det = (t.double() for t in state)
        self.classes, self.features = means.shape
        mean = means.mean(0)
        identity = torch.eye(self.features, dtype=means.dtype).expand_as(cholesky)
        whiten = torch.linalg.solve_triangular(cholesky, identity, upper=False)
        offset = torch.einsum("cde,ce->cd", whiten, means - mean)
        for name, tensor in {
            "mean": mean,
            "whiten": whiten.flatten(0, 1).mT,
            "offset": offset.flatten(),
            "bias": -log_det / 2,
        }.items():
            self.register_buffer(name, tensor.contiguous().float())

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        white = ((z - self.mean) @ self.whiten - self.offset).reshape(-1, self.classes, self.features)
        relative = self.bias - (white * white).sum(2) / 2
        return relative, torch.zeros_like(relative)


def head_graph(head: GaussianHead, log_prior: Tensor, temperature: float = 1.0) -> HeadGraph:
    """The configured head, its prior and its temperature."""
    state = tuple(tensor.detach().cpu() for tensor in head.configured())
    scores: nn.Module
    if isinstance(head, (LDA, Linear)):
        weight, bias = state
        scores = _Linear(weight, bias)
    elif isinstance(head, ProtoNets):
        means = state[0].double()
        centre = means.mean(0)
        means = means - centre
        heat = head.temperature
        scores = _Linear(2 * means / heat, -(means * means).sum(1) / heat, centre, 1 / heat)
    else:
        assert isinstance(head, QDA)
        scores = _Dense(state) if len(state) == 3 else _Rows(state)
    return HeadGraph(scores, log_prior.cpu(), temperature).eval()
