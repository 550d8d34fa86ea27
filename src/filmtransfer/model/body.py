"""What of the backbone is learned for a task.

``train="adapter"`` learns the numbers of an adapter and nothing else: FiLM, unless another is named. ``"all"``
learns every weight, in a copy of its own (BiT), ``"none"`` leaves the backbone as it is. Whatever is learned
has a name in the network, and is read, stored and loaded by it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from .. import film
from ..adapters import attach, complete_options
from ..backbones import Backbone
from ..errors import UsageError, invalid_choice
from ..seeding import make_generator

Train = Literal["adapter", "all", "none"]
TRAIN: tuple[Train, ...] = ("adapter", "all", "none")


@dataclass(frozen=True)
class Body:
    """Which numbers of the backbone move. ``film_from`` is the stage from which on FiLM is learned."""

    train: Train = "adapter"
    adapter: str = "film"
    film_from: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, train: str, adapter: str, film_from: int = 0, options: Mapping[str, Any] | None = None
    ) -> Body:
        """After a look at the words; an adapter's options are completed."""
        if train not in TRAIN:
            raise invalid_choice("train", train, TRAIN)
        if train != "adapter" and adapter != "film":
            raise UsageError(
                f"train={train!r} learns no adapter, but {adapter!r} was named.",
                "Leave one of them out, or say train='adapter'.",
            )
        return cls(train, adapter, film_from, complete_options(adapter, options))

    @property
    def folds(self) -> bool:
        """Whether frozen norms may be folded into the convolutions; not where these are learned."""
        return self.train != "all"

    def attach(self, backbone: Backbone, seed: int = 0) -> nn.Module:
        """A network of its own around the backbone's weights; exactly what is learned requires a gradient."""
        if self.train == "all":
            if backbone.folded:
                raise UsageError(
                    f"{backbone.name} was folded for speed: its own weights cannot be learned any more.",
                    "Load it with load_backbone(..., fold=False).",
                )
            return copy.deepcopy(backbone.module).requires_grad_(True)
        network = share_weights(backbone.module)
        if self.adapter == "film":
            film.attach(network, backbone.sites)
            return film.set_trainable(
                network, backbone.sites_from(self.film_from) if self.train == "adapter" else []
            )
        return attach(
            network,
            self.adapter,
            generator=make_generator(seed, "adapter"),
            options=self.options,
        )


def moving(network: nn.Module) -> dict[str, nn.Parameter]:
    """What is learned of a network, by name, in the order of the network."""
    return {name: p for name, p in network.named_parameters() if p.requires_grad}


@torch.no_grad()
def load_numbers(network: nn.Module, numbers: Mapping[str, Tensor]) -> None:
    """Set what is learned. Every number has to be there, fit and be finite; nothing changes otherwise."""
    wanted = moving(network)
    film.check_parameters(wanted, numbers)
    for name, parameter in wanted.items():
        parameter.copy_(numbers[name])


def share_weights(network: nn.Module) -> nn.Module:
    """The same weights in a module tree of its own: each model has its FiLM, all have one backbone."""
    weights = [*network.parameters(), *network.buffers()]
    return copy.deepcopy(network, {id(tensor): tensor for tensor in weights})
