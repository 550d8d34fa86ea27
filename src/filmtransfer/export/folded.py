"""A complete classifier in one graph: FiLM is folded into the norms, the norms into the convolutions."""

from __future__ import annotations

import copy
from dataclasses import asdict
from typing import Any

import torch
from torch import nn

from .. import film
from ..backbones.frozen import fold_frozen_layers, plain_convolution, same_padding
from ..errors import InputError
from ..estimator import FewShotClassifier
from ..model import AdaptedModel
from .graph import OUTPUTS, FoldedClassifier, head_graph, trace


def folded_graph(clf: FewShotClassifier) -> bytes:
    """Return the content of an .onnx file: pixels → probabilities, logits, features."""
    classifier = FoldedClassifier(fold_network(clf.model_), clf.model_.pixels, head_graph(clf.predictor_))
    return trace(classifier, {"pixels": example_pixels(clf)}, OUTPUTS, graph_metadata(clf, "folded"))


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


@torch.no_grad()
def fix_image_size(network: nn.Module, size: int) -> nn.Module:
    """Compute in place what depends only on the image size, so that the graph does not compute it for every image.

    This is a transformer's position embedding, and the padding of TensorFlow's convolutions.
    """
    if hasattr(network, "set_input_size") and getattr(network, "pos_embed", None) is not None:
        network.set_input_size(img_size=(size, size))  # type: ignore[operator]
    pads: dict[nn.Conv2d, list[int]] = {}

    def record_padding(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        assert isinstance(module, nn.Conv2d)
        pads[module] = same_padding(module, inputs[0])

    same = {
        name: module
        for name, module in network.named_modules()
        if isinstance(module, nn.Conv2d) and type(module).__name__.endswith(("Conv2dSame", "SameConv2d"))
    }
    hooks = [module.register_forward_pre_hook(record_padding) for module in same.values()]
    network(torch.zeros(1, 3, size, size))
    for hook in hooks:
        hook.remove()
    for name, module in same.items():
        network.set_submodule(name, _with_explicit_padding(module, pads[module]))
    return network


def _with_explicit_padding(same: nn.Conv2d, pads: list[int]) -> nn.Module:
    """Return the same convolution with explicit padding."""
    left, right, top, bottom = pads
    even = left == right and top == bottom
    plain = plain_convolution(same, nn.Conv2d, (top, left) if even else (0, 0), same.weight)
    return plain if even else nn.Sequential(nn.ZeroPad2d((left, right, top, bottom)), plain)


def graph_metadata(clf: FewShotClassifier, kind: str) -> dict[str, object]:
    """Return what a program needs to know about a graph; the keys are those of the update."""
    update = clf.update_
    return {
        "format": 1,
        "kind": kind,
        "backbone": {"name": update.backbone, "sha256": update.backbone_digest},
        "pixels": asdict(clf.model_.pixels),
        "features": clf.model_.backbone.features,
        **({} if kind == "shared" else {"classes": update.classes, "head": update.head}),
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
