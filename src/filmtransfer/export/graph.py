"""The parts of a classifier that are traced: the head, and the complete classifier.

pixels  uint8 (B, 3, S, S), RGB, as ``data.pixels`` makes them; normalisation is inside
→  probabilities (B, C) · logits (B, C) · features (B, D) · ood_score (B) · rejected (B)

The last two only where the update has an OOD detector (model/ood.py): an image is rejected, as none of the classes, if
its score is below the threshold, which the metadata holds together with its false-alarm rate.
"""

from __future__ import annotations

import json

import numpy as np
import torch
from torch import Tensor, nn

from ..data.pixels import PixelSpec
from ..heads import Scores
from ..model import FeaturePredictor, OODDetector, log_posterior
from ..model.metadata import JsonTable
from ..model.tensors import normalise
from ..runtime.session import KEY, import_extra
from .rejection import Rejection

OUTPUTS = ("probabilities", "logits", "features")


class OODGraph(nn.Module):
    """The OOD detector: features (B, D) and logits (B, C) → OOD scores (B) and whether the images are rejected (B)."""

    directions: Tensor

    def __init__(self, detector: OODDetector, threshold: float) -> None:
        super().__init__()
        self.detector, self.threshold = detector, threshold
        self.register_buffer("directions", detector.unit_directions(torch.empty(0)))

    def forward(self, features: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the scores, and compare them with the threshold."""
        scores = self.detector.scores_towards(self.directions, features, logits)
        return scores, scores < self.threshold


class HeadGraph(nn.Module):
    """The head with prior, temperature and OOD detector: features → probabilities, logits, OOD scores, rejections."""

    log_prior: Tensor

    def __init__(
        self, scores: Scores, log_prior: np.ndarray, temperature: float, ood: OODGraph | None = None
    ) -> None:
        super().__init__()
        self.scores = scores
        for name, array in scores.kept().items():
            self.register_buffer(name, torch.from_numpy(array))
        self.register_buffer("log_prior", torch.from_numpy(log_prior).float())
        self.temperature = float(temperature)
        self.ood = ood

    def forward(self, features: Tensor) -> tuple[Tensor, ...]:
        """Compute probabilities and logits and, with an OOD detector, its scores and what is rejected."""
        relative, shared = self.scores.map(lambda name, _: getattr(self, name))(features)
        logits = relative + shared
        rejection = () if self.ood is None else self.ood(features, logits)
        return log_posterior(relative, self.log_prior, self.temperature).exp(), logits, *rejection


def head_graph(predictor: FeaturePredictor, rejection: Rejection | None = None) -> HeadGraph:
    """Return the module of a predictor; its head has to be configured."""
    ood = (
        None
        if rejection is None or rejection.detector is None
        else OODGraph(rejection.detector, rejection.threshold)
    )
    return HeadGraph(predictor.head.scores(), predictor.log_prior, predictor.temperature, ood).eval()


class FoldedClassifier(nn.Module):
    """A complete classifier, from normalisation to probabilities."""

    def __init__(self, network: nn.Module, pixels: PixelSpec, head: HeadGraph) -> None:
        super().__init__()
        self.network, self.pixels, self.head = network, pixels, head

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        """Return probabilities (B, C), logits (B, C), features (B, D) and, with an OOD detector, scores and rejections (B)."""
        features = self.network(normalise(pixels, self.pixels))
        probabilities, logits, *rejection = self.head(features)
        return probabilities, logits, features, *rejection


def read_metadata(content: bytes) -> JsonTable:
    """Return the metadata that ``trace`` wrote; empty if the graph is not ours."""
    onnx = import_extra("onnx")
    try:
        model = onnx.load_from_string(content)
        metadata = json.loads(next((p.value for p in model.metadata_props if p.key == KEY), "{}"))
    except Exception:  # protobuf's exceptions depend on its version
        return {}
    return metadata if isinstance(metadata, dict) else {}
