"""Compare a graph with torch, before anything is written.

The scale of features is arbitrary: the largest difference is divided by their spread, the largest deviation of a value
from its mean over the images. An offset that all images share does not enlarge the spread; outputs that are the same for
all images must be equal.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor

from .. import film
from ..backbones import Backbone
from ..data.pixels import PixelSpec
from ..errors import FitError
from ..model.tensors import normalise
from .session import FeatureSession

TOLERANCE = 1e-4  # float32 itself differs from float64 by 1e-6 to 3e-5 (benchmarks/results/export.md)


class ParityError(FitError):
    """The exported graph differs from the model; nothing was written."""


def probe_images(size: int, count: int = 8, seed: int = 0) -> Tensor:
    """Return uint8 images (count, 3, size, size) from smooth to noisy; the first two are black and white."""
    generator = torch.Generator().manual_seed(seed)
    images = []
    for i in range(count):
        grain = max(1, size >> (i % 5))
        noise = torch.rand(1, 3, -(-size // grain) + 1, -(-size // grain) + 1, generator=generator)
        images.append(torch.nn.functional.interpolate(noise, (size, size), mode="bilinear")[0])
    pixels = (torch.stack(images) * 255).round().to(torch.uint8)
    pixels[0], pixels[1] = 0, 255
    return pixels


def spread(values: np.ndarray) -> float:
    """Return the largest deviation of a value (B, D) from its mean over the images."""
    return float(np.abs(values - values.mean(0)).max())


def difference(actual: np.ndarray, expected: np.ndarray, scale: float) -> float:
    """Return the largest difference relative to ``scale``; infinite for values that are not finite or a scale of 0."""
    gap = float(np.abs(actual - expected).max())
    if gap == 0:
        return 0.0
    return gap / scale if scale > 0 and np.isfinite(gap) else float("inf")


@torch.no_grad()
def check_features(
    session: FeatureSession, backbone: Backbone, spec: PixelSpec, tolerance: float = TOLERANCE
) -> float:
    """Return the largest difference from torch on probe images, each with other γ and β; refuse a larger one."""
    pixels, rows = probe_images(spec.size), probe_rows(session, seed=0)
    network = film.attach(copy.deepcopy(backbone.module).cpu(), backbone.sites)
    with film.per_sample(network, rows):
        expected = network(normalise(pixels, spec)).double().numpy()
    gamma, beta = (np.stack(part) for part in zip(*(_packed(session, row) for row in rows), strict=True))
    largest = difference(session.features(pixels.numpy(), gamma, beta), expected, spread(expected))
    if not largest <= tolerance:
        raise ParityError(
            f"The graph of {backbone.name} differs from torch by {largest:.1e}, more than {tolerance:.0e}: it is not used.",
            "Please report this, with the versions of torch and onnxruntime.",
        )
    return largest


def probe_rows(session: FeatureSession, seed: int, count: int = 8) -> list[dict[str, Tensor]]:
    """Return FiLM parameters of several users, as far from 1 and 0 as training moves them."""
    generator = torch.Generator().manual_seed(seed)
    return [
        {
            f"{site.name}.{kind}": start + 0.1 * torch.randn(site.channels, generator=generator)
            for site in session.facts.sites
            for kind, start in (("gamma", 1.0), ("beta", 0.0))
        }
        for _ in range(count)
    ]


def _packed(session: FeatureSession, row: dict[str, Tensor]) -> tuple[np.ndarray, np.ndarray]:
    facts = session.facts
    return facts.pack({name: values.numpy() for name, values in row.items()}, facts.key.film_from)
