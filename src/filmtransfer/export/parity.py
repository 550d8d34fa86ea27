"""Compare an exported graph with torch, before a file is written.

Probabilities are compared by their absolute difference, logits, features and OOD scores relative to their spread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from ..errors import FitError
from ..estimator import FewShotClassifier
from ..processes import usable_cores
from ..runtime.parity import TOLERANCE, ParityError, difference, probe_images, spread
from ..runtime.session import open_session
from .graph import OUTPUTS
from .rejection import Rejection
from .shared import SharedSession

Run = Callable[[np.ndarray], Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Parity:
    """The largest difference of each output; of all but the probabilities relative to their spread."""

    probabilities: float
    logits: float
    features: float
    images: int
    ood_score: float | None = None  # None: the classifier cannot reject images

    @property
    def largest(self) -> float:
        """The largest of the differences."""
        return max(self.probabilities, self.logits, self.features, self.ood_score or 0.0)

    def line(self) -> str:
        """Describe the differences in a sentence."""
        ood = "" if self.ood_score is None else f", OOD score {self.ood_score:.1e}"
        return (
            f"onnxruntime and torch differ by at most {self.largest:.1e} on {self.images} probe images "
            f"(probabilities {self.probabilities:.1e}, logits {self.logits:.1e}, features {self.features:.1e}{ood})"
        )


def torch_outputs(clf: FewShotClassifier, pixels: Tensor) -> dict[str, np.ndarray]:
    """Return the outputs of torch, computed as ``FewShotClassifier.classify`` does."""
    predictions = clf.predictor_.predict(clf.model_.features(pixels))
    outputs = {name: getattr(predictions, name).astype(np.float64) for name in OUTPUTS}
    if Rejection.of(clf.predictor_).detector is not None:
        outputs["ood_score"] = clf.predictor_.ood_scores(predictions)
    return outputs


def compare(run: Run, clf: FewShotClassifier, pixels: Tensor) -> Parity:
    """Measure the largest differences between a graph and torch."""
    expected, actual = torch_outputs(clf, pixels), run(pixels.numpy())
    largest = {}
    for name, values in expected.items():
        scale = 1.0 if name == "probabilities" else spread(values)
        largest[name] = difference(actual[name], values, scale)
    return Parity(**largest, images=len(pixels))


def run_folded(content: bytes) -> Run:
    """Return a folded graph as a function."""
    session = open_session(content, usable_cores())
    names = [node.name for node in session.get_outputs()]
    return lambda pixels: dict(zip(names, session.run(names, {"pixels": pixels}), strict=True))


def run_shared(backbone: bytes, user: bytes) -> Run:
    """Return a shared backbone with one user as a function."""
    session = SharedSession(backbone)
    session.add("user", user)

    def run(pixels: np.ndarray) -> Mapping[str, np.ndarray]:
        rows = session.run(pixels, ["user"] * len(pixels))
        return {name: np.stack([row[name] for row in rows]) for name in rows[0]}

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
