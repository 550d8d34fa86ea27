"""Random support features for the tests of the assessment."""

from __future__ import annotations

import torch


def random_support(counts=(5, 3, 4), features=12, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    centres = torch.randn(len(counts), features, generator=generator, dtype=torch.float64)
    z = centres[labels] + torch.randn(len(labels), features, generator=generator, dtype=torch.float64)
    return z.to(dtype), labels
