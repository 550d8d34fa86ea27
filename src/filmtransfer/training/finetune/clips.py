"""Clips: consecutive frames of a video whose features are averaged into one example.

Training sees clips; at prediction every frame is classified together with the frames before it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .activations import Activations


class Clips:
    """Maps indices of clips to their features; clip i consists of the frames i·T … i·T + T − 1."""

    def __init__(self, frames: Activations, length: int) -> None:
        if length < 1 or len(frames) % length:
            raise ValueError(f"{len(frames)} frames cannot be divided into clips of {length}")
        self.frames = frames
        self.length = length

    def __len__(self) -> int:
        return len(self.frames) // self.length

    def __call__(self, indices: Tensor) -> Tensor:
        """Compute features (B, D), with a graph if one is being recorded."""
        rows = (indices[:, None] * self.length + torch.arange(self.length)).flatten()
        features: Tensor = self.frames(rows).unflatten(0, (len(indices), self.length)).mean(1)
        return features

    @torch.no_grad()
    def features(self, batch: int = 4) -> Tensor:
        """Compute the features of all clips, without a graph."""
        return torch.cat([self(part) for part in torch.arange(len(self)).split(batch)])


def with_history(features: Tensor, length: int) -> Tensor:
    """Return for each frame of a video the mean over it and the ``length`` − 1 before it.

    The first frame stands in for the frames before the video begins.
    """
    past = features[:1].expand(length - 1, -1)
    return torch.cat([past, features]).unfold(0, length, 1).mean(-1)
