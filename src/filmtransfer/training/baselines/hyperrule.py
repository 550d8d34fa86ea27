"""BiT-HyperRule: the hyperparameters of BiT's fine-tuning, from the number and size of the images alone.

Sources: Kolesnikov et al., Big Transfer (2020), section 3.3, and the authors' released google-research/
big_transfer (the FiT paper's BiT numbers were made with it). Where the two differ, on the size of large images
(the article crops 384 of 448 pixels for all but its largest network), this is the released one.

SGD with momentum 0.9 at 0.003, batches of 512, no weight decay; the learning rate rises linearly at first and then
falls tenfold three times; random crops and horizontal flips; mixup from 20,000 images on; the head starts at zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .batch import Rule

SMALL_SET, LARGE_SET = 20_000, 500_000
SMALL_AREA = 96 * 96
SMALL, LARGE = (160, 128), (512, 480)  # side of the resized image, and of the crop from it
MARGIN = 32  # pixels by which either crop is smaller


def schedule(images: int) -> tuple[int, ...]:
    """Return the steps at which warm-up ends, the learning rate decays (three times) and training ends."""
    if images < SMALL_SET:
        return (100, 200, 300, 400, 500)
    if images < LARGE_SET:
        return (500, 3000, 6000, 9000, 10_000)
    return (500, 6000, 12_000, 18_000, 20_000)


def resolution(height: int, width: int) -> tuple[int, int]:
    """Return the side of the resized image, and of the crop that is used in training and prediction."""
    return SMALL if height * width < SMALL_AREA else LARGE


def mixup(images: int) -> float:
    """Return α of the Beta(α, α) that mixes two images; 0: none are mixed."""
    return 0.0 if images < SMALL_SET else 0.1


@dataclass(frozen=True, kw_only=True)
class HyperRule(Rule):
    """The rule for a task of ``images``; ``steps`` shortens it with the shape of its schedule kept."""

    images: int
    batch: int = 512
    learning_rate: float = 0.003
    crop: int | None = None  # None: the complete image
    initial_head = "zero"
    augments = True
    with_replacement = True

    @property
    def supports(self) -> tuple[float, ...]:
        """The schedule, scaled to ``steps``."""
        published = schedule(self.images)
        return tuple(s * self.steps / published[-1] for s in published)

    @property
    def mixup(self) -> float:
        """α of the Beta(α, α) that mixes two images."""
        return mixup(self.images)

    def learning_rate_at(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        warm_up, *decays, _ = self.supports
        if step < warm_up:
            return self.learning_rate * step / warm_up
        return self.learning_rate * math.prod(0.1 for decay in decays if decay < step)

    def augment(self, pixels: Tensor, generator: torch.Generator) -> Tensor:
        """Return a random crop of each image, half of them flipped horizontally."""
        side = pixels.shape[-1]
        crop = min(self.crop or side, side)
        corners = torch.randint(side - crop + 1, (len(pixels), 2), generator=generator).tolist()
        flips = (torch.rand(len(pixels), generator=generator) < 0.5).tolist()
        out = torch.empty(*pixels.shape[:2], crop, crop, dtype=pixels.dtype)
        for i, ((top, left), flip) in enumerate(zip(corners, flips, strict=True)):
            cropped = pixels[i, :, top : top + crop, left : left + crop]
            out[i] = cropped.flip(-1) if flip else cropped
        return out
