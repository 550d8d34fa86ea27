"""The graph of a backbone: the pixels of one image and FiLM parameters → features.

    pixels (1, 3, S, S), gamma (P), beta (P)  →  features (1, D)

P counts the channels of the FiLM sites from one stage on, in the order of the network. The norms of earlier sites are
folded into their convolutions: FiLM costs most at their large activations, and by default it is not trained there.

One image at a time, FiLM is the affine transformation of its norm (``film.layer``), one pass over the activation; for a
batch with a row of γ and β for each image it would be the norm, a multiplication and an addition. A larger batch is not
faster either: the activations of several images do not fit into the processor's cache (benchmarks/results/runtime.md).
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from .. import film
from ..backbones import Backbone
from ..backbones.frozen import fold_frozen_layers
from ..backbones.stages import stage_of, stages
from ..data.pixels import PixelSpec
from ..model.tensors import normalise
from .facts import GraphFacts, GraphKey, Site, package_version
from .tracing import fix_image_size, trace

PACKAGES = ("filmtransfer", "torch", "timm", "onnx", "onnxruntime")


class BackboneGraph(nn.Module):
    """A network with FiLM layers whose parameters are inputs."""

    def __init__(self, network: nn.Module, pixels: PixelSpec) -> None:
        super().__init__()
        self.network, self.pixels = network, pixels
        self.layers = [(layer, layer.gamma.numel()) for layer in film.layers(network).values()]
        for layer, _ in self.layers:
            del layer.gamma, layer.beta  # parameters, which the forward pass replaces by parts of the inputs

    def forward(self, pixels: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        """Compute features (1, D) with γ and β (P)."""
        begin = 0
        for layer, channels in self.layers:
            for name, row in (("gamma", gamma), ("beta", beta)):
                setattr(layer, name, row[begin : begin + channels])
            begin += channels
        features: Tensor = self.network(normalise(pixels, self.pixels))
        return features


def build_graph(backbone: Backbone, spec: PixelSpec, film_from: int | None) -> bytes:
    """Return the graph of a backbone with FiLM from the stage ``film_from`` on, or nowhere (None)."""
    sites = [] if film_from is None else backbone.sites_from(film_from)
    network = copy.deepcopy(backbone.module).cpu().eval().requires_grad_(False)
    fold_frozen_layers(network, sites)
    film.attach(network, sites).requires_grad_(False)
    fix_image_size(network, spec.size)
    facts = _facts(backbone, network, GraphKey.of(backbone.name, backbone.digest, spec, film_from))
    example = {
        "pixels": torch.zeros(1, 3, spec.size, spec.size, dtype=torch.uint8),
        "gamma": torch.ones(facts.channels),
        "beta": torch.zeros(facts.channels),
    }
    outputs = ["features"]
    return trace(BackboneGraph(network, spec), example, outputs, facts.to_table(), fixed=[*example, *outputs])


def _facts(backbone: Backbone, network: nn.Module, key: GraphKey) -> GraphFacts:
    order = stages(backbone.module)
    return GraphFacts(
        key,
        backbone.features,
        tuple(
            Site(name, layer.gamma.numel(), stage_of(name, order))
            for name, layer in film.layers(network).items()
        ),
        {name: package_version(name) for name in PACKAGES},
    )
