"""BiT-HyperRule: how BiT fine-tunes all weights, decided by the number and size of the images alone.

Sources: Kolesnikov et al., Big Transfer (2020), section 3.3, and the authors' released google-research/
big_transfer (the FiT paper's BiT numbers were made with it). Where the two differ, on the size of large images
(the article crops 384 of 448 pixels for all but its largest network), this is the released one.

SGD with momentum 0.9 at 0.003, batches of 512, no weight decay; the rate rises linearly at first and then falls
tenfold three times; random crops and mirror images; mixup from 20,000 images on; the head starts at zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

SMALL_SET, LARGE_SET = 20_000, 500_000
SMALL_AREA = 96 * 96
SMALL, LARGE = (160, 128), (512, 480)  # the square that an image is scaled to, and the crop of it
MARGIN = 32  # pixels that either crop leaves


def schedule(images: int) -> tuple[int, ...]:
    """Warm up until the first step, decay at the next three, stop at the last."""
    if images < SMALL_SET:
        return (100, 200, 300, 400, 500)
    if images < LARGE_SET:
        return (500, 3000, 6000, 9000, 10_000)
    return (500, 6000, 12_000, 18_000, 20_000)


def resolution(height: int, width: int) -> tuple[int, int]:
    """The square that an image is scaled to, and the crop that is trained on and predicted with."""
    return SMALL if height * width < SMALL_AREA else LARGE


def mixup(images: int) -> float:
    """α of the Beta(α, α) that mixes two images; 0: none are mixed."""
    return 0.0 if images < SMALL_SET else 0.1


@dataclass(frozen=True)
class HyperRule:
    """The rule for a task of ``images``; ``steps`` shortens it with the shape of its schedule kept."""

    images: int
    steps: int
    batch: int = 512
    learning_rate: float = 0.003
    crop: int | None = None  # of larger squares; None: the whole square
    zero_head = True

    @property
    def supports(self) -> tuple[float, ...]:
        published = schedule(self.images)
        return tuple(s * self.steps / published[-1] for s in published)

    @property
    def mixup(self) -> float:
        return mixup(self.images)

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        warm, *decays, _ = self.supports
        if step < warm:
            return self.learning_rate * step / warm
        return self.learning_rate * math.prod(0.1 for decay in decays if decay < step)

    def optimiser(self, learned: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.SGD(learned, lr=self.learning_rate, momentum=0.9)

    def choose(self, count: int, generator: torch.Generator) -> Tensor | None:
        """A batch with repetitions where there are fewer images than it holds; else None: go through all."""
        return torch.randint(count, (self.batch,), generator=generator) if count < self.batch else None

    def augment(self, pixels: Tensor, generator: torch.Generator) -> Tensor:
        """A random crop of each square, half of them mirrored."""
        side = pixels.shape[-1]
        crop = min(self.crop or side, side)
        corners = torch.randint(side - crop + 1, (len(pixels), 2), generator=generator).tolist()
        mirrored = (torch.rand(len(pixels), generator=generator) < 0.5).tolist()
        out = torch.empty(*pixels.shape[:2], crop, crop, dtype=pixels.dtype)
        for i, ((top, left), mirror) in enumerate(zip(corners, mirrored, strict=True)):
            square = pixels[i, :, top : top + crop, left : left + crop]
            out[i] = square.flip(-1) if mirror else square
        return out
