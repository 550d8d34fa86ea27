"""A complete classifier in one graph: FiLM is folded into the norms, the norms into the convolutions."""

from __future__ import annotations

import copy
from dataclasses import asdict
from typing import Any

import torch
from torch import nn

from .. import film
from ..backbones.frozen import fold_frozen_layers
from ..errors import InputError
from ..estimator import FewShotClassifier
from ..model import AdaptedModel
from ..model.ood import FALSE_ALARM
from ..runtime.tracing import fix_image_size, trace
from .graph import OUTPUTS, FoldedClassifier, head_graph
from .rejection import Rejection


def folded_graph(clf: FewShotClassifier, false_alarm: float = FALSE_ALARM) -> bytes:
    """Return the content of an .onnx file: pixels → probabilities, logits, features, ood_score, rejected."""
    rejection = Rejection.of(clf.predictor_, false_alarm)
    head = head_graph(clf.predictor_, rejection)
    classifier = FoldedClassifier(fold_network(clf.model_), clf.model_.pixels, head)
    outputs, metadata = (*OUTPUTS, *rejection.outputs), graph_metadata(clf, "folded", rejection)
    return trace(classifier, {"pixels": example_pixels(clf)}, outputs, metadata)


def fold_network(model: AdaptedModel) -> nn.Module:
    """Return a copy of the network with everything folded that can be; the rest of an adapter is traced."""
    check_not_folded(model)
    network = copy.deepcopy(model.network).cpu().eval().requires_grad_(False)
    film.fold(network)
    _merge_lora(network)
    fold_frozen_layers(network, ())
    return fix_image_size(network, model.pixels.size)


def check_not_folded(model: AdaptedModel) -> None:
    """Refuse a model without FiLM layers: it has been folded before, and there is nothing left to fold."""
    if model.body.is_film and not film.layers(model.network):
        raise InputError(
            "This model is folded already: its FiLM parameters are inside the backbone.",
            "Export the update that it was made from.",
        )


def graph_metadata(
    clf: FewShotClassifier, kind: str, rejection: Rejection | None = None
) -> dict[str, object]:
    """Return what a program needs to know about a graph; a backbone that users share has no classes and no threshold."""
    update = clf.update_
    return {
        "format": 1,
        "kind": kind,
        "backbone": {"name": update.backbone, "sha256": update.backbone_digest},
        "pixels": asdict(clf.model_.pixels),
        "features": clf.model_.backbone.features,
        **({} if rejection is None else {"classes": update.classes, "head": update.head}),
        **({} if rejection is None else {"rejection": rejection.metadata()}),
    }


def example_pixels(clf: FewShotClassifier) -> torch.Tensor:
    """Return the pixels to trace with: two images, since one could hide a fixed batch size."""
    size = clf.model_.pixels.size
    return torch.zeros(2, 3, size, size, dtype=torch.uint8)


def _merge_lora(network: nn.Module) -> None:
    """Replace the two branches of LoRA layers by one with the weights W + s·BA."""
    for name, module in list(network.named_modules()):
        layer: Any = module
        if hasattr(layer, "get_base_layer") and hasattr(layer, "merge"):
            layer.merge()
            network.set_submodule(name, layer.get_base_layer())
