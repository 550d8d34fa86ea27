"""Compare an exported graph with torch, before a file is written.

Probabilities are compared by their absolute difference. The scale of logits and features is arbitrary: their largest
difference is divided by their spread, the largest deviation of a value from its mean over the images. An offset that all
images share does not enlarge the spread; outputs that are the same for all images must be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..errors import FitError
from ..estimator import FewShotClassifier
from .graph import OUTPUTS, open_session
from .shared import SharedSession

TOLERANCE = 1e-4

Run = Callable[[np.ndarray], Mapping[str, np.ndarray]]


class ParityError(FitError):
    """The exported graph differs from the model; nothing was written."""


@dataclass(frozen=True)
class Parity:
    """The largest difference of each output; of logits and features relative to their spread."""

    probabilities: float
    logits: float
    features: float
    images: int

    @property
    def largest(self) -> float:
        """The largest of the three differences."""
        return max(self.probabilities, self.logits, self.features)

    def line(self) -> str:
        """Describe the differences in a sentence."""
        return (
            f"onnxruntime and torch differ by at most {self.largest:.1e} on {self.images} probe images "
            f"(probabilities {self.probabilities:.1e}, logits {self.logits:.1e}, features {self.features:.1e})"
        )


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


def torch_outputs(clf: FewShotClassifier, pixels: Tensor) -> dict[str, np.ndarray]:
    """Return the outputs of torch, computed as ``FewShotClassifier.classify`` does."""
    predictions = clf.predictor_.predict(clf.model_.features(pixels))
    return {name: getattr(predictions, name).astype(np.float64) for name in OUTPUTS}


def compare(run: Run, clf: FewShotClassifier, pixels: Tensor) -> Parity:
    """Measure the largest differences between a graph and torch."""
    expected, actual = torch_outputs(clf, pixels), run(pixels.numpy())
    largest = {}
    for name in OUTPUTS:
        scale = 1.0 if name == "probabilities" else spread(expected[name])
        largest[name] = difference(actual[name], expected[name], scale)
    return Parity(**largest, images=len(pixels))


def spread(values: np.ndarray) -> float:
    """Return the largest deviation of a value (B, D) from its mean over the images."""
    return float(np.abs(values - values.mean(0)).max())


def difference(actual: np.ndarray, expected: np.ndarray, scale: float) -> float:
    """Return the largest difference relative to ``scale``; infinite for values that are not finite or a scale of 0."""
    gap = float(np.abs(actual - expected).max())
    if gap == 0:
        return 0.0
    return gap / scale if scale > 0 and np.isfinite(gap) else float("inf")


def run_folded(content: bytes) -> Run:
    """Return a folded graph as a function."""
    session = open_session(content)
    return lambda pixels: dict(zip(OUTPUTS, session.run(list(OUTPUTS), {"pixels": pixels}), strict=True))


def run_shared(backbone: bytes, user: bytes) -> Run:
    """Return a shared backbone with one user as a function."""
    session = SharedSession(backbone)
    session.add("user", user)

    def run(pixels: np.ndarray) -> Mapping[str, np.ndarray]:
        rows = session.run(pixels, ["user"] * len(pixels))
        return {name: np.stack([row[name] for row in rows]) for name in OUTPUTS}

    return run


def check_parity(run: Run, clf: FewShotClassifier, tolerance: float = TOLERANCE) -> Parity:
    """Refuse a graph that differs by more than ``tolerance``."""
    try:
        parity = compare(run, clf, probe_images(clf.model_.pixels.size))
    except FitError:
        raise
    except Exception as error:  # onnxruntime has an exception for each of its status codes
        raise ParityError(
            f"onnxruntime cannot run the graph ({' '.join(str(error).split())[:160]}): nothing was written.",
            "Please report this, with the output of 'fit show' on the update.",
        ) from None
    if not parity.largest <= tolerance:
        raise ParityError(
            f"{parity.line()}, more than {tolerance:.0e}: nothing was written.",
            "Please report this, with the output of 'fit show' on the update.",
        )
    return parity
