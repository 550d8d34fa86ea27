"""Clips: a few frames in a row whose features are averaged, as one example.

Learning sees whole clips; at prediction every frame is judged together with the frames before it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .activations import Activations


class Clips:
    """Maps indices of clips to their features; clip i is the frames i·T … i·T + T − 1."""

    def __init__(self, frames: Activations, length: int) -> None:
        if length < 1 or len(frames) % length:
            raise ValueError(f"{len(frames)} frames are no clips of {length}")
        self.frames = frames
        self.length = length

    def __len__(self) -> int:
        return len(self.frames) // self.length

    def __call__(self, indices: Tensor) -> Tensor:
        """Features (B, D), with a graph if one is being recorded."""
        rows = (indices[:, None] * self.length + torch.arange(self.length)).flatten()
        features: Tensor = self.frames(rows).unflatten(0, (len(indices), self.length)).mean(1)
        return features

    @torch.no_grad()
    def features(self, batch: int = 4) -> Tensor:
        """Features of all clips, without a graph."""
        return torch.cat([self(part) for part in torch.arange(len(self)).split(batch)])


def with_history(features: Tensor, length: int) -> Tensor:
    """For each frame of a video the mean over it and the ``length`` − 1 before it; the first frame has no other past."""
    past = features[:1].expand(length - 1, -1)
    return torch.cat([past, features]).unfold(0, length, 1).mean(-1)
