"""The whole model f(x) = h_φ(b_θ,ψ(x)): pixels → features → logits."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
from torch import Tensor, nn

from .. import film
from ..backbones import Backbone
from ..data.pixels import PixelSpec, normalise
from ..heads import GaussianHead


class AdaptedModel(nn.Module):
    """A frozen backbone with FiLM attached, and a head."""

    def __init__(self, backbone: Backbone, head: GaussianHead, image_size: int | None = None) -> None:
        super().__init__()
        self.backbone = backbone
        self.network = film.attach(_share(backbone.module), backbone.sites)
        self.head = head
        self.pixels: PixelSpec = replace(
            backbone.pixels, size=backbone.fit_size(image_size or backbone.pixels.size)
        )

    def learned(self) -> list[nn.Parameter]:
        """What fine-tuning moves: ψ and the covariance weights e."""
        return [*film.parameters(self.network), *self.head.parameters()]

    def embed(self, pixels: Tensor) -> Tensor:
        """Features (B, D) of uint8 pixels (B, 3, S, S), with a graph if one is being recorded."""
        batch = normalise(pixels, self.pixels).contiguous(memory_format=self.backbone.memory_format)
        features: Tensor = self.network(batch)
        return features

    @torch.no_grad()
    def features(self, pixels: Tensor, batch: int = 32) -> Tensor:
        """Features of many images, in batches, without a graph."""
        if len(pixels) == 0:
            return torch.empty(0, self.backbone.features)
        return torch.cat([self.embed(part) for part in pixels.split(batch)])

    @torch.no_grad()
    def configure(self, pixels: Tensor, labels: Tensor, batch: int = 32) -> Tensor:
        """Build the head from all support images (paper: FiT Prediction); returns their features."""
        return self.build_head(self.features(pixels, batch), labels)

    @torch.no_grad()
    def build_head(self, features: Tensor, labels: Tensor) -> Tensor:
        """Build the head from support features that are at hand; returns them."""
        self.head.configure(features, labels)
        return features

    @torch.no_grad()
    def logits(self, pixels: Tensor, batch: int = 32) -> Tensor:
        return self.head.logits(self.features(pixels, batch))


def _share(network: nn.Module) -> nn.Module:
    """The same weights in a module tree of its own: each model has its FiLM, all have one backbone."""
    weights = [*network.parameters(), *network.buffers()]
    return copy.deepcopy(network, {id(tensor): tensor for tensor in weights})
