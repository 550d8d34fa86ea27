"""The parts of a classifier that are traced: the head, and the complete classifier.

pixels  uint8 (B, 3, S, S), RGB, as ``data.pixels`` makes them; normalisation is inside
→  probabilities (B, C) · logits (B, C) · features (B, D)
"""

from __future__ import annotations

import json

import numpy as np
import torch
from torch import Tensor, nn

from ..data.pixels import PixelSpec
from ..heads import Scores
from ..model import FeaturePredictor, log_posterior
from ..model.metadata import JsonTable
from ..model.tensors import normalise
from ..runtime.session import KEY, import_extra

OUTPUTS = ("probabilities", "logits", "features")


class HeadGraph(nn.Module):
    """The head with prior and temperature: features (B, D) → probabilities (B, C) and logits (B, C)."""

    log_prior: Tensor

    def __init__(self, scores: Scores, log_prior: np.ndarray, temperature: float) -> None:
        super().__init__()
        self.scores = scores
        for name, array in scores.kept().items():
            self.register_buffer(name, torch.from_numpy(array))
        self.register_buffer("log_prior", torch.from_numpy(log_prior).float())
        self.temperature = float(temperature)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Compute probabilities and logits."""
        relative, shared = self.scores.map(lambda name, _: getattr(self, name))(features)
        return log_posterior(relative, self.log_prior, self.temperature).exp(), relative + shared


def head_graph(predictor: FeaturePredictor) -> HeadGraph:
    """Return the module of a predictor; its head has to be configured."""
    return HeadGraph(predictor.head.scores(), predictor.log_prior, predictor.temperature).eval()


class FoldedClassifier(nn.Module):
    """A complete classifier, from normalisation to probabilities."""

    def __init__(self, network: nn.Module, pixels: PixelSpec, head: HeadGraph) -> None:
        super().__init__()
        self.network, self.pixels, self.head = network, pixels, head

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return probabilities (B, C), logits (B, C) and features (B, D)."""
        features = self.network(normalise(pixels, self.pixels))
        probabilities, logits = self.head(features)
        return probabilities, logits, features


def read_metadata(content: bytes) -> JsonTable:
    """Return the metadata that ``trace`` wrote; empty if the graph is not ours."""
    onnx = import_extra("onnx")
    try:
        model = onnx.load_from_string(content)
        metadata = json.loads(next((p.value for p in model.metadata_props if p.key == KEY), "{}"))
    except Exception:  # protobuf's exceptions depend on its version
        return {}
    return metadata if isinstance(metadata, dict) else {}
