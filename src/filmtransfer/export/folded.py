"""One user's whole model in one graph: FiLM written into the norms, the norms into the convolutions."""

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
from .graph import OUTPUTS, Pipeline, trace
from .head import head_graph


def folded(clf: FewShotClassifier) -> bytes:
    """The content of an .onnx file: pixels → probabilities, logits, features."""
    pipeline = Pipeline(fold_network(clf.model_), clf.model_.pixels, head_graph(clf.predictor_))
    return trace(pipeline, {"pixels": blank(clf)}, OUTPUTS, facts(clf, "folded"))


def fold_network(model: AdaptedModel) -> nn.Module:
    """A copy of the network with everything folded that can be; what remains of an adapter is traced."""
    refuse_folded(model)
    network = copy.deepcopy(model.network).cpu().eval().requires_grad_(False)
    film.fold(network)
    _merge_lora(network)
    fold_frozen_layers(network, ())
    return at_size(network, model.pixels.size)


def refuse_folded(model: AdaptedModel) -> None:
    """A model whose FiLM layers are gone has been folded before: there is nothing left to fold or to feed."""
    expects = model.body.train != "all" and model.body.adapter == "film"
    if expects and not film.layers(model.network):
        raise InputError(
            "This model is folded already: its FiLM numbers are inside the backbone.",
            "Export the update that it was made from.",
        )


@torch.no_grad()
def at_size(network: nn.Module, size: int) -> nn.Module:
    """What depends on the image size alone, once instead of at every image; works in place.

    A transformer's position embedding, and TensorFlow's padding, of which the graph would otherwise be full.
    """
    if hasattr(network, "set_input_size") and getattr(network, "pos_embed", None) is not None:
        network.set_input_size(img_size=(size, size))  # type: ignore[operator]
    pads: dict[nn.Conv2d, list[int]] = {}

    def look(module: Any, inputs: tuple[torch.Tensor, ...]) -> None:
        sizes = zip(inputs[0].shape[-2:], module.kernel_size, module.stride, module.dilation, strict=True)
        wanted = [max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0) for n, k, s, d in sizes]
        pads[module] = [half for total in wanted[::-1] for half in (total // 2, total - total // 2)]

    same: dict[str, Any] = {
        name: m
        for name, m in network.named_modules()
        if type(m).__name__.endswith(("Conv2dSame", "SameConv2d"))
    }
    hooks = [module.register_forward_pre_hook(look) for module in same.values()]
    network(torch.zeros(1, 3, size, size))
    for hook in hooks:
        hook.remove()
    for name, module in same.items():
        network.set_submodule(name, _padded(module, pads[module]))
    return network


def _padded(same: nn.Conv2d, pads: list[int]) -> nn.Module:
    """The same convolution with its padding written out."""
    left, right, top, bottom = pads
    even = left == right and top == bottom
    plain = nn.Conv2d(
        same.in_channels,
        same.out_channels,
        same.kernel_size,  # type: ignore[arg-type]
        same.stride,  # type: ignore[arg-type]
        (top, left) if even else 0,
        same.dilation,  # type: ignore[arg-type]
        same.groups,
        bias=same.bias is not None,
    )
    plain.weight, plain.bias = same.weight, same.bias
    return plain if even else nn.Sequential(nn.ZeroPad2d((left, right, top, bottom)), plain)


def facts(clf: FewShotClassifier, kind: str) -> dict[str, Any]:
    """What a program has to know of a graph; the same words as in the update."""
    update = clf.update_
    return {
        "format": 1,
        "kind": kind,
        "backbone": {"name": update.backbone, "sha256": update.backbone_digest},
        "pixels": asdict(clf.model_.pixels),
        "features": clf.model_.backbone.features,
        **({} if kind == "shared" else {"classes": update.classes, "head": update.head}),
    }


def blank(clf: FewShotClassifier, count: int = 2) -> torch.Tensor:
    """Pixels to trace with; two images, since one can hide a batch that is fixed."""
    size = clf.model_.pixels.size
    return torch.zeros(count, 3, size, size, dtype=torch.uint8)


def _merge_lora(network: nn.Module) -> None:
    """W + s·BA instead of two ways through the network."""
    for name, module in list(network.named_modules()):
        layer: Any = module
        if hasattr(layer, "get_base_layer") and hasattr(layer, "merge"):
            layer.merge()
            network.set_submodule(name, layer.get_base_layer())
