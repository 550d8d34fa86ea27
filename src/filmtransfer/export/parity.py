"""Does the exported graph say what torch says? Measured before a file is left behind.

Probabilities are compared as they are. Logits and features may be of any size: their largest difference is divided by their
spread, the largest distance of a value from its mean over the images. What is the same for every image says nothing about
an image, and counts for nothing here; outputs that do not differ between images agree only if they are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..errors import FitError
from ..estimator import FewShotClassifier
from .graph import OUTPUTS, session
from .shared import SharedSession

TOLERANCE = 1e-4

Run = Callable[[np.ndarray], Mapping[str, np.ndarray]]


class ParityError(FitError):
    """The exported graph differs from the model; nothing was written."""


@dataclass(frozen=True)
class Parity:
    """The largest difference of each output (of logits and features: in parts of their spread), on so many images."""

    probabilities: float
    logits: float
    features: float
    images: int

    @property
    def largest(self) -> float:
        return max(self.probabilities, self.logits, self.features)

    def line(self) -> str:
        return (
            f"onnxruntime and torch differ by at most {self.largest:.1e} on {self.images} probe images "
            f"(probabilities {self.probabilities:.1e}, logits {self.logits:.1e}, features {self.features:.1e})"
        )


def probes(size: int, count: int = 8, seed: int = 0) -> Tensor:
    """uint8 images (count, 3, size, size) from smooth to noisy; the first are black and white."""
    generator = torch.Generator().manual_seed(seed)
    images = []
    for i in range(count):
        grain = max(1, size >> (i % 5))
        noise = torch.rand(1, 3, -(-size // grain) + 1, -(-size // grain) + 1, generator=generator)
        images.append(torch.nn.functional.interpolate(noise, (size, size), mode="bilinear")[0])
    pixels = (torch.stack(images) * 255).round().to(torch.uint8)
    pixels[0], pixels[1] = 0, 255
    return pixels


def answers(clf: FewShotClassifier, pixels: Tensor) -> dict[str, np.ndarray]:
    """Return what torch computes, as ``FewShotClassifier.classify`` does."""
    predictions = clf.predictor_.predict(clf.model_.features(pixels))
    return {name: getattr(predictions, name).double().numpy() for name in OUTPUTS}


def compare(run: Run, clf: FewShotClassifier, pixels: Tensor) -> Parity:
    """The largest differences between a graph and torch."""
    expected, found = answers(clf, pixels), run(pixels.numpy())
    largest = {}
    for name in OUTPUTS:
        scale = 1.0 if name == "probabilities" else spread(expected[name])
        largest[name] = difference(found[name], expected[name], scale)
    return Parity(**largest, images=len(pixels))


def spread(values: np.ndarray) -> float:
    """The largest distance of a value (B, D) from its mean over the images."""
    return float(np.abs(values - values.mean(0)).max())


def difference(found: np.ndarray, expected: np.ndarray, scale: float) -> float:
    """The largest difference in parts of ``scale``; infinite where a number is not finite or there is no scale."""
    gap = float(np.abs(found - expected).max())
    if gap == 0:
        return 0.0
    return gap / scale if scale > 0 and np.isfinite(gap) else float("inf")


def run_folded(content: bytes) -> Run:
    """A folded graph as a function."""
    made = session(content)
    return lambda pixels: dict(zip(OUTPUTS, made.run(list(OUTPUTS), {"pixels": pixels}), strict=True))


def run_shared(backbone: bytes, user: bytes) -> Run:
    """A shared backbone with one user as a function."""
    made = SharedSession(backbone)
    made.add("user", user)

    def run(pixels: np.ndarray) -> Mapping[str, np.ndarray]:
        rows = made.run(pixels, ["user"] * len(pixels))
        return {name: np.stack([row[name] for row in rows]) for name in OUTPUTS}

    return run


def check(run: Run, clf: FewShotClassifier, tolerance: float = TOLERANCE) -> Parity:
    """Refuse a graph that differs by more than ``tolerance``."""
    try:
        found = compare(run, clf, probes(clf.model_.pixels.size))
    except FitError:
        raise
    except Exception as error:  # onnxruntime has a kind for each of its status codes
        raise ParityError(
            f"onnxruntime cannot run the graph ({' '.join(str(error).split())[:160]}): nothing was written.",
            "Please report this, with the output of 'fit show' on the update.",
        ) from None
    if not found.largest <= tolerance:
        raise ParityError(
            f"{found.line()}, more than {tolerance:.0e}: nothing was written.",
            "Please report this, with the output of 'fit show' on the update.",
        )
    return found
