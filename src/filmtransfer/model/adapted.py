"""The complete model f(x) = h_φ(b_θ,ψ(x)): pixels → activations → features → logits.

The network is cut before the first trainable part. Activations of what is below (``below``) never change, so a caller
may cache them; what is above (``above``) is all that a fine-tuning step has to run.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from ..backbones import Backbone, run_parts, split_parts
from ..data.pixels import PixelSpec
from ..heads import Head
from .body import Body, trainable_parameters
from .hardware import Compiled, Hardware
from .tensors import normalise


class AdaptedModel(nn.Module):
    """A pretrained backbone, of which the ``body`` says what is trained (FiLM by default), and a head.

    Features are where the backbone is; labels, counts and indices stay on the CPU.
    """

    def __init__(
        self,
        backbone: Backbone,
        head: Head,
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
        self._below, self._above = split_parts(self.network, list(self.backbone_parameters()))
        self._run = Compiled(self._run_above) if self.hardware.compile else self._run_above

    def backbone_parameters(self) -> dict[str, nn.Parameter]:
        """Return ψ: the trainable parameters of the backbone, by name."""
        return trainable_parameters(self.network)

    def trainable_parameters(self) -> list[nn.Parameter]:
        """Return what fine-tuning updates: ψ and the head's own weights, such as e."""
        return [*self.backbone_parameters().values(), *self.head.parameters()]

    @property
    def has_below(self) -> bool:
        """Whether anything is computed before the first trainable part."""
        return len(self._below) > 0

    def below(self, pixels: Tensor) -> Tensor:
        """Map uint8 pixels (B, 3, S, S) to activations that training does not change."""
        batch = normalise(pixels.to(self.backbone.device), self.pixels)
        with self.hardware.training_precision():
            return run_parts(
                self.network, self._below, batch.contiguous(memory_format=self.backbone.memory_format)
            )

    def above(self, activations: Tensor) -> Tensor:
        """Map those activations to features (B, D), with a graph if one is being recorded."""
        with self.hardware.training_precision():
            features = self._run(activations)
        return features.float() if features.dtype != torch.float64 else features

    def _run_above(self, activations: Tensor) -> Tensor:
        return run_parts(self.network, self._above, activations)

    def embed(self, pixels: Tensor) -> Tensor:
        """Compute features (B, D) of uint8 pixels (B, 3, S, S), with a graph if one is being recorded."""
        return self.above(self.below(pixels))

    @torch.no_grad()
    def features(self, pixels: Tensor, batch: int = 32) -> Tensor:
        """Compute features of many images, in batches, without a graph."""
        if len(pixels) == 0:
            return torch.empty(0, self.backbone.features, device=self.backbone.device)
        return torch.cat([self.embed(part) for part in pixels.split(batch)])

    @torch.no_grad()
    def configure(self, pixels: Tensor, labels: Tensor, batch: int = 32) -> Tensor:
        """Build the head from all support images (paper: FiT Prediction); return their features."""
        return self.build_head(self.features(pixels, batch), labels)

    @torch.no_grad()
    def build_head(self, features: Tensor, labels: Tensor) -> Tensor:
        """Build the head from support features; return them."""
        self.head.configure(features, labels)
        return features

    @torch.no_grad()
    def logits(self, pixels: Tensor, batch: int = 32) -> Tensor:
        """Compute the logits of many images."""
        return self.head.logits(self.features(pixels, batch))
