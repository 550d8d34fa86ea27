"""The graph of a backbone: pixels and FiLM parameters → features.

    pixels (B, 3, S, S), gamma (B, P), beta (B, P)  →  features (B, D)

P counts the channels of the FiLM sites from one stage on, in the order of the network. The norms of earlier sites are
folded into their convolutions: FiLM costs most at their large activations, and by default it is not trained there.
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

    def forward(self, pixels: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        """Compute features (B, D) with a row of γ and β for each image."""
        begin = 0
        for layer in film.layers(self.network).values():
            end = begin + layer.gamma.numel()
            layer.rows = gamma[:, begin:end], beta[:, begin:end]
            begin = end
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
        "pixels": example_pixels(spec),
        "gamma": torch.ones(2, facts.channels),
        "beta": torch.zeros(2, facts.channels),
    }
    return trace(BackboneGraph(network, spec), example, ["features"], facts.to_table())


def example_pixels(spec: PixelSpec) -> Tensor:
    """Return the pixels to trace with: two images, since one could hide a fixed batch size."""
    return torch.zeros(2, 3, spec.size, spec.size, dtype=torch.uint8)


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
