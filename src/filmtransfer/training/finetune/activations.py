"""Activations below the first FiLM layer that learns: computed once for all images of a task, if they fit.

They depend on nothing that fine-tuning moves. How much they save depends on where FiLM begins: a stem's
convolution if it begins at the stem, most of the network with a high ``film_from``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...errors import UsageError
from ...model import AdaptedModel

MB = 2**20


def check_budget(one: Tensor, images: int, budget_mb: float) -> int:
    """The bytes that all images need; a budget that is there but not enough for one is a mistake."""
    need = one.numel() * one.element_size()
    if 0 < budget_mb * MB < need:
        raise UsageError(
            f"A cache of {budget_mb:g} MB is too small for one image, which needs {need / MB:.2f} MB.",
            f"Give at least {need * images / MB:.0f} MB for these {images} images, or 0 for none.",
        )
    return need * images


class Activations:
    """Maps indices of a task's images to their features, from kept activations where there is room."""

    def __init__(self, model: AdaptedModel, pixels: Tensor, budget_mb: float, batch: int = 32) -> None:
        self.model = model
        self.pixels = pixels
        self.kept: Tensor | None = None
        if budget_mb == 0 or len(pixels) == 0 or not model.has_below:
            return
        with torch.no_grad():
            one = self._stored(model.below(pixels[:1]))
            if check_budget(one, len(pixels), budget_mb) > budget_mb * MB:
                return
            self.kept = one.new_empty(len(pixels), *one.shape[1:])
            for begin in range(0, len(pixels), batch):
                part = model.below(pixels[begin : begin + batch])
                self.kept[begin : begin + batch] = self._stored(part)

    def __len__(self) -> int:
        return len(self.pixels)

    def __call__(self, indices: Tensor) -> Tensor:
        """Features (B, D), with a graph if one is being recorded."""
        if self.kept is None:
            return self.model.embed(self.pixels[indices])
        rows = self.kept[indices.to(self.kept.device)]
        return self.model.above(rows.permute(0, 3, 1, 2) if self._channels_last(rows) else rows)

    def pick(self, rows: Tensor) -> Activations:
        """Those of some of the images, without computing them again."""
        part = Activations(self.model, self.pixels[rows], 0)
        part.kept = None if self.kept is None else self.kept[rows.to(self.kept.device)]
        return part

    @torch.no_grad()
    def features(self, batch: int = 32) -> Tensor:
        """Features of all images, without a graph."""
        return torch.cat([self(part) for part in torch.arange(len(self)).split(batch)])

    @property
    def bytes(self) -> int:
        return 0 if self.kept is None else self.kept.numel() * self.kept.element_size()

    def _stored(self, x: Tensor) -> Tensor:
        """A channels-last image (C, H, W) is (H, W, C) in memory: stored so, picking rows keeps it whole."""
        return x.permute(0, 2, 3, 1) if self._channels_last(x) else x

    def _channels_last(self, x: Tensor) -> bool:
        return x.ndim == 4 and self.model.backbone.memory_format == torch.channels_last
