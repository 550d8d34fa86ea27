"""Which parameters of the backbone are trained for a task.

``train="adapter"`` trains the parameters of an adapter and nothing else: FiLM, unless another is named. ``"all"``
trains every weight, in a copy of its own (BiT), ``"none"`` leaves the backbone frozen. Trainable parameters are read,
stored and loaded by their names in the network.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from .. import film
from ..adapters import attach, complete_options
from ..backbones import Backbone
from ..errors import UsageError, invalid_choice
from ..seeding import make_generator

Train = Literal["adapter", "all", "none"]
TRAIN: tuple[Train, ...] = get_args(Train)


@dataclass(frozen=True)
class Body:
    """Which parameters of the backbone are trained; FiLM is trained from the stage ``film_from`` on."""

    train: Train = "adapter"
    adapter: str = "film"
    film_from: int = 0
    options: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of(
        cls, train: str, adapter: str, film_from: int = 0, options: Mapping[str, object] | None = None
    ) -> Body:
        """Return a checked body, in which the options of the adapter are complete."""
        if train not in TRAIN:
            raise invalid_choice("train", train, TRAIN)
        if train != "adapter" and adapter != "film":
            raise UsageError(
                f"train={train!r} trains no adapter, but {adapter!r} was named.",
                "Leave one of them out, or say train='adapter'.",
            )
        return cls(train, adapter, film_from, complete_options(adapter, options))

    @property
    def folds(self) -> bool:
        """Whether frozen norms may be folded into the convolutions; not where these are trained."""
        return self.train != "all"

    @property
    def is_film(self) -> bool:
        """Whether the network has FiLM layers and no other trainable parameters."""
        return self.train != "all" and self.adapter == "film"

    def describe(self) -> str:
        """Say what is trained of the backbone."""
        return "all weights" if self.train == "all" else f"the adapter {self.adapter}"

    def attach(self, backbone: Backbone, seed: int = 0) -> nn.Module:
        """Return a network that shares the backbone's weights; exactly what is trained requires a gradient."""
        if self.train == "all":
            if backbone.folded:
                raise UsageError(
                    f"{backbone.name} was folded for speed: its own weights cannot be trained any more.",
                    "Load it with load_backbone(..., fold=False).",
                )
            return copy.deepcopy(backbone.module).requires_grad_(True)
        generator = make_generator(seed, "adapter")
        network = attach(
            share_weights(backbone.module), self.adapter, generator=generator, options=self.options
        )
        if self.is_film:
            trained = backbone.sites_from(self.film_from) if self.train == "adapter" else []
            film.set_trainable(network, trained)
        return network


def trainable_parameters(network: nn.Module) -> dict[str, nn.Parameter]:
    """Return the trainable parameters of a network by name, in the order of the network."""
    return {name: p for name, p in network.named_parameters() if p.requires_grad}


@torch.no_grad()
def load_parameters(network: nn.Module, values: Mapping[str, Tensor]) -> None:
    """Set the trainable parameters. All have to be present, of their shape and finite; nothing changes otherwise."""
    trainable = trainable_parameters(network)
    film.check_parameters(trainable, values)
    for name, parameter in trainable.items():
        parameter.copy_(values[name])


def share_weights(network: nn.Module) -> nn.Module:
    """Return a module tree of its own with the same weights: each model has its FiLM, all have one backbone."""
    weights = [*network.parameters(), *network.buffers()]
    return copy.deepcopy(network, {id(tensor): tensor for tensor in weights})
