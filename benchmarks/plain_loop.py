"""A plain implementation of fine-tuning after the paper's text, without any optimization: the baseline of engine.py.

The backbone is as timm builds it, in torch's default layout; FiLM is a separate layer after each norm; the covariances are
D×D and factorised by Cholesky; query images are processed in micro-batches, and the support set is embedded again for each
of them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from filmtransfer.backbones import Backbone
from filmtransfer.episodes import Episode
from filmtransfer.model.tensors import normalise


class PlainFiLM(nn.Module):
    """The norm, then γ ⊙ x + β, then the activation that timm fuses with the norm."""

    def __init__(self, norm: nn.BatchNorm2d | nn.GroupNorm) -> None:
        super().__init__()
        self.norm = norm
        self.gamma = nn.Parameter(torch.ones_like(norm.weight))
        self.beta = nn.Parameter(torch.zeros_like(norm.weight))

    def forward(self, x: Tensor) -> Tensor:
        norm = self.norm
        if isinstance(norm, nn.BatchNorm2d):
            x = F.batch_norm(
                x, norm.running_mean, norm.running_var, norm.weight, norm.bias, False, 0.0, norm.eps
            )
        else:
            x = F.group_norm(x, norm.num_groups, norm.weight, norm.bias, norm.eps)
        x = self.gamma[None, :, None, None] * x + self.beta[None, :, None, None]
        if hasattr(norm, "act"):
            fused: Any = norm
            x = fused.act(fused.drop(x))
        return x


class PlainModel(nn.Module):
    """An unfolded backbone with PlainFiLM, a dense head, and the covariance weights as logarithms."""

    def __init__(self, backbone: Backbone, head: str) -> None:
        super().__init__()
        self.pixels = backbone.pixels
        self.network = backbone.module.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        self.network.requires_grad_(False)
        for site in backbone.sites:
            parent, _, name = site.rpartition(".")
            owner = self.network.get_submodule(parent)
            setattr(owner, name, PlainFiLM(getattr(owner, name)))
        self.head = head
        start = {"lda": (1.0, 1.0), "qda": (0.5, 0.5, 1.0)}[head]
        self.log_weights = nn.Parameter(torch.tensor(start).log())

    def trainable_parameters(self) -> list[nn.Parameter]:
        """Return the FiLM parameters and the covariance weights."""
        film = [m for m in self.network.modules() if isinstance(m, PlainFiLM)]
        return [*(p for layer in film for p in (layer.gamma, layer.beta)), self.log_weights]

    def embed(self, pixels: Tensor) -> Tensor:
        """Compute features (B, D)."""
        features: Tensor = self.network(normalise(pixels, self.pixels))
        return features

    def logits(self, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        """Compute the logits (Q, C) of query features."""
        return dense_head(self.head, self.log_weights.exp(), support, labels, query)

    def step(self, pixels: Tensor, episode: Episode, micro_batch: int) -> float:
        """Add the gradient of the episode's loss, and return the loss."""
        total = 0.0
        for chunk in torch.arange(len(episode.query)).split(micro_batch):
            support = self.embed(pixels[episode.support])
            query = self.embed(pixels[episode.query[chunk]])
            logits = self.logits(support, episode.support_labels, query)
            loss = F.cross_entropy(logits, episode.query_labels[chunk], reduction="sum") / len(episode.query)
            loss.backward()
            total += float(loss.detach())
        return total


def dense_head(head: str, e: Tensor, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
    """Compute log N(z | μ_c, Σ_c) up to a constant (Q, C) by Cholesky factors of D×D matrices."""
    classes = int(labels.max()) + 1
    means = torch.stack([support[labels == c].mean(0) for c in range(classes)])
    identity = torch.eye(support.shape[1])
    task = covariance(support)
    offsets = (query[None] - means[:, None]).mT  # (C, D, Q)
    if head == "lda":
        cholesky = torch.linalg.cholesky(e[0] * task + e[1] * identity)
        white: Tensor = torch.linalg.solve_triangular(cholesky.expand(classes, -1, -1), offsets, upper=False)
        return -(white * white).sum(1).mT / 2
    own = torch.stack([covariance(support[labels == c]) for c in range(classes)])
    cholesky = torch.linalg.cholesky(e[0] * own + e[1] * task + e[2] * identity)
    white = torch.linalg.solve_triangular(cholesky, offsets, upper=False)
    log_det = 2 * torch.log(torch.diagonal(cholesky, dim1=-2, dim2=-1)).sum(-1)
    return -((white * white).sum(1).mT + log_det) / 2


def covariance(rows: Tensor) -> Tensor:
    """Compute the covariance (D, D) of rows (N, D)."""
    centred = rows - rows.mean(0)
    return centred.mT @ centred / max(len(rows) - 1, 1)
