"""A cache of the activations below the first trainable FiLM layer, for all images of a task.

Fine-tuning does not change them. How much work the cache saves depends on where FiLM begins: the convolution of the
stem if it begins at the stem, most of the network with a high ``film_from``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...errors import UsageError
from ...model import AdaptedModel

MB = 2**20


def check_budget(one: Tensor, images: int, budget_mb: float) -> int:
    """Return the bytes that all images need; a budget above 0 that is too small for one image is an error."""
    need = one.numel() * one.element_size()
    if 0 < budget_mb * MB < need:
        raise UsageError(
            f"A cache of {budget_mb:g} MB is too small for one image, which needs {need / MB:.2f} MB.",
            f"Give at least {need * images / MB:.0f} MB for these {images} images, or 0 for none.",
        )
    return need * images


class Activations:
    """Maps indices of images to their features, from cached activations if all fit into the budget."""

    def __init__(self, model: AdaptedModel, pixels: Tensor, budget_mb: float, batch: int = 32) -> None:
        self.model = model
        self.pixels = pixels
        self.cached: Tensor | None = None
        if budget_mb == 0 or len(pixels) == 0 or not model.has_below:
            return
        with torch.no_grad():
            one = self._cache_layout(model.below(pixels[:1]))
            if check_budget(one, len(pixels), budget_mb) > budget_mb * MB:
                return
            self.cached = one.new_empty(len(pixels), *one.shape[1:])
            for begin in range(0, len(pixels), batch):
                part = model.below(pixels[begin : begin + batch])
                self.cached[begin : begin + batch] = self._cache_layout(part)

    def __len__(self) -> int:
        return len(self.pixels)

    def __call__(self, indices: Tensor) -> Tensor:
        """Compute features (B, D), with a graph if one is being recorded."""
        if self.cached is None:
            return self.model.embed(self.pixels[indices])
        rows = self.cached[indices.to(self.cached.device)]
        return self.model.above(rows.permute(0, 3, 1, 2) if self._channels_last(rows) else rows)

    def select(self, rows: Tensor) -> Activations:
        """Return the activations of some of the images, without computing them again."""
        part = Activations(self.model, self.pixels[rows], 0)
        part.cached = None if self.cached is None else self.cached[rows.to(self.cached.device)]
        return part

    @torch.no_grad()
    def features(self, batch: int = 32) -> Tensor:
        """Compute the features of all images, without a graph."""
        return torch.cat([self(part) for part in torch.arange(len(self)).split(batch)])

    @property
    def bytes(self) -> int:
        """The size of the cache."""
        return 0 if self.cached is None else self.cached.numel() * self.cached.element_size()

    def _cache_layout(self, x: Tensor) -> Tensor:
        """Return (B, H, W, C) for channels-last memory, in which an indexed row then stays contiguous."""
        return x.permute(0, 2, 3, 1) if self._channels_last(x) else x

    def _channels_last(self, x: Tensor) -> bool:
        return x.ndim == 4 and self.model.backbone.memory_format == torch.channels_last
