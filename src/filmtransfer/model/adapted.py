"""The whole model f(x) = h_φ(b_θ,ψ(x)): pixels → activations → features → logits.

The network is cut before the first part that learns. What is below gives the same activations for ever
(``below``), so a caller may keep them; what is above (``above``) is all that a fine-tuning step has to run.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from ..backbones import Backbone, run_parts, split_parts
from ..data.pixels import PixelSpec, normalise
from ..heads import GaussianHead
from .body import Body, moving
from .hardware import Compiled, Hardware


class AdaptedModel(nn.Module):
    """A pretrained backbone of which the ``body`` says what is learned (FiLM by default), and a head.

    Features are where the backbone is; labels, counts and indices stay on the CPU.
    """

    def __init__(
        self,
        backbone: Backbone,
        head: GaussianHead,
        image_size: int | None = None,
        *,
        body: Body | None = None,
        seed: int = 0,
        hardware: Hardware | None = None,
    ) -> None:
        super().__init__()
        self.hardware = hardware or Hardware(backbone.device)
        self.backbone = backbone = backbone.to(self.hardware.device)
        self.body = body or Body()
        self.network = self.body.attach(backbone, seed)
        self.head = head.to(backbone.device)
        self.pixels: PixelSpec = replace(
            backbone.pixels, size=backbone.fit_size(image_size or backbone.pixels.size)
        )
        self._below, self._above = split_parts(self.network, list(self.moving()))
        self._run = Compiled(self._walk) if self.hardware.compile else self._walk

    def moving(self) -> dict[str, nn.Parameter]:
        """ψ by name: what is learned of the backbone."""
        return moving(self.network)

    def learned(self) -> list[nn.Parameter]:
        """What fine-tuning moves: ψ and the covariance weights e."""
        return [*self.moving().values(), *self.head.parameters()]

    @property
    def has_below(self) -> bool:
        """Whether anything is computed before the first part that learns."""
        return len(self._below) > 0

    def below(self, pixels: Tensor) -> Tensor:
        """Uint8 pixels (B, 3, S, S) → activations that no learning changes."""
        batch = normalise(pixels.to(self.backbone.device), self.pixels)
        with self.hardware.training_precision():
            return run_parts(
                self.network, self._below, batch.contiguous(memory_format=self.backbone.memory_format)
            )

    def above(self, activations: Tensor) -> Tensor:
        """Those activations → features (B, D), with a graph if one is being recorded."""
        with self.hardware.training_precision():
            features = self._run(activations)
        return features.float() if features.dtype != torch.float64 else features

    def _walk(self, activations: Tensor) -> Tensor:
        return run_parts(self.network, self._above, activations)

    def embed(self, pixels: Tensor) -> Tensor:
        """Features (B, D) of uint8 pixels (B, 3, S, S), with a graph if one is being recorded."""
        return self.above(self.below(pixels))

    @torch.no_grad()
    def features(self, pixels: Tensor, batch: int = 32) -> Tensor:
        """Features of many images, in batches, without a graph."""
        if len(pixels) == 0:
            return torch.empty(0, self.backbone.features, device=self.backbone.device)
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
