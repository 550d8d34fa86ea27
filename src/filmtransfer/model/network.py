"""The network of a task: what its body adds to a backbone, and the parameters that are trained.

Trainable parameters are read, stored and loaded by their names in the network.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import nn

from .. import film
from ..adapters import attach
from ..arrays import Array, to_tensor
from ..backbones import Backbone
from ..errors import UsageError
from ..parameters import check_parameters
from ..seeding import make_generator
from .body import Body


def attach_body(body: Body, backbone: Backbone, seed: int = 0) -> nn.Module:
    """Return a network that shares the backbone's weights; exactly what is trained requires a gradient."""
    if body.train == "all":
        if backbone.folded:
            raise UsageError(
                f"{backbone.name} was folded for speed: its own weights cannot be trained any more.",
                "Load it with load_backbone(..., fold=False).",
            )
        return copy.deepcopy(backbone.module).requires_grad_(True)
    generator = make_generator(seed, "adapter")
    network = attach(share_weights(backbone.module), body.adapter, generator=generator, options=body.options)
    if body.is_film:
        stage = body.first_film_stage
        film.set_trainable(network, [] if stage is None else backbone.sites_from(stage))
    return network


def trainable_parameters(network: nn.Module) -> dict[str, nn.Parameter]:
    """Return the trainable parameters of a network by name, in the order of the network."""
    return {name: p for name, p in network.named_parameters() if p.requires_grad}


@torch.no_grad()
def load_parameters(network: nn.Module, values: Mapping[str, Array]) -> None:
    """Set the trainable parameters. All have to be present, of their shape and finite; nothing changes otherwise."""
    trainable = trainable_parameters(network)
    values = {name: to_tensor(value) for name, value in values.items()}
    check_parameters({name: tuple(p.shape) for name, p in trainable.items()}, values)
    for name, parameter in trainable.items():
        parameter.copy_(values[name])


def share_weights(network: nn.Module) -> nn.Module:
    """Return a module tree of its own with the same weights: each model has its FiLM, all have one backbone."""
    weights = [*network.parameters(), *network.buffers()]
    return copy.deepcopy(network, {id(tensor): tensor for tensor in weights})
