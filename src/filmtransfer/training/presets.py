"""Settings of fine-tuning by name.

The paper's come from its Training and Evaluation Details; ``fast`` is ours, measured in
benchmarks/ (docs/presets.md says what it trades).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..backbones import Backbone
from ..data.pixels import MAX_SIZE
from ..episodes import choose_split
from ..errors import UsageError, invalid_choice
from ..model import Body
from .baselines.batch import Cosine, Rule
from .baselines.hyperrule import MARGIN, SMALL, HyperRule, resolution, schedule

ALL_WEIGHTS = 1e-4  # Adam's rate where every weight is learned: FiLM's would ruin them
SMALL_IMAGE = 32  # "unless the image size was 32×32 pixels or less" (paper)


@dataclass(frozen=True)
class Settings:
    """Everything that decides a fine-tuning run, beside data, backbone, head and seed."""

    steps: int | None  # None: as many as the BiT-HyperRule has for the number of images
    learning_rate: float
    split: str = "auto"
    support_size: int = 100
    max_query: int = 2000
    image_size: int = 384
    small_image_size: int = 224  # for images of at most 32 pixels
    train_size: int | None = None  # fine-tune on smaller images than the head is built from
    micro_batch: int = 64
    film_from: int | None = 0  # the stage from which on FiLM is learned; None: what suits the backbone
    cache_mb: float = 256  # memory for activations below FiLM; none are kept if all do not fit
    hold_out: float = 0.0  # share of each class kept from ψ, to choose how far to go; 0: all the way
    train: str = "adapter"  # what of the backbone is learned: an adapter, all of it, none of it
    adapter: str = "film"
    adapter_options: Mapping[str, Any] = field(default_factory=dict)
    rule: str = "cosine"  # of batch training, with the linear head: cosine or hyperrule
    batch: int = 32
    weight_decay: float = 0.0
    search_steps: int = 0  # of NOAH's supernet, before the subnet that it finds is trained; 0: no search

    def size_for(self, largest_side: int) -> int:
        """The image size of the head and of prediction, given the largest side among the images."""
        if self.rule == "hyperrule":
            small = resolution(largest_side, largest_side) == SMALL
        else:
            small = largest_side <= SMALL_IMAGE
        return self.small_image_size if largest_side > 0 and small else self.image_size

    def train_size_for(self, largest_side: int) -> int:
        """The image size of fine-tuning; under the HyperRule random crops of larger squares are trained on."""
        size = self.size_for(largest_side)
        return size + MARGIN if self.rule == "hyperrule" else min(self.train_size or size, size)

    def on(self, backbone: Backbone, images: int = 0) -> Settings:
        """These settings with what they leave to the backbone and to the number of images."""
        film_from = backbone.film_from if self.film_from is None else self.film_from
        steps = schedule(images)[-1] if self.steps is None else self.steps
        return replace(self, film_from=film_from, steps=steps)

    def body(self) -> Body:
        """What of the backbone is learned."""
        return Body.of(self.train, self.adapter, self.film_from or 0, self.adapter_options)

    def batch_rule(self, images: int, size: int) -> Rule:
        """How a linear head is trained, with predictions at ``size`` pixels."""
        steps = self.steps or 0
        if self.rule == "hyperrule":
            return HyperRule(images, steps, self.batch, self.learning_rate, size)
        return Cosine(steps, self.learning_rate, self.batch, self.weight_decay)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def with_choices(self, **chosen: Any) -> Settings:
        """These settings with whatever was chosen by hand (None means not chosen)."""
        settings = replace(self, **{k: v for k, v in chosen.items() if v is not None})
        _at_least("steps", settings.steps or 0, 0)
        _at_least("support_size", settings.support_size, 2)
        _at_least("max_query", settings.max_query, 1)
        _at_least("micro_batch", settings.micro_batch, 1)
        _at_least("batch", settings.batch, 1)
        _at_least("search_steps", settings.search_steps, 0)
        if settings.search_steps and settings.adapter != "noah":
            raise UsageError(
                f"There is nothing to search for {settings.adapter}.", "search_steps is for adapter='noah'."
            )
        _at_least("film_from", settings.film_from or 0, 0)
        if not 0 <= settings.cache_mb < math.inf:
            raise UsageError(
                f"cache_mb cannot be {settings.cache_mb}.", "It is a number of megabytes, 0 for none."
            )
        _at_least("image_size", min(settings.image_size, settings.small_image_size), 32)
        _at_least("train_size", settings.train_size or 32, 32)
        if max(settings.image_size, settings.small_image_size, settings.train_size or 0) > MAX_SIZE:
            raise UsageError(f"image_size cannot be above {MAX_SIZE}.", "Choose a smaller one.")
        if not 0 < settings.learning_rate < math.inf:
            raise UsageError(
                f"The learning rate cannot be {settings.learning_rate}.", "It has to be above 0."
            )
        if not 0 <= settings.weight_decay < math.inf:
            raise UsageError(f"The weight decay cannot be {settings.weight_decay}.", "It is at least 0.")
        if settings.rule not in ("cosine", "hyperrule"):
            raise invalid_choice("The rule", settings.rule, ("cosine", "hyperrule"))
        choose_split(settings.split, 0)  # says so if there is no such split
        settings.body()  # and if there is no such adapter
        return settings


_PAPER = Settings(steps=400, learning_rate=0.0035, split="paper")

_BIT = Settings(
    steps=None,
    learning_rate=0.003,
    train="all",
    rule="hyperrule",
    batch=512,
    image_size=480,
    small_image_size=128,
    micro_batch=32,
)

PRESETS: dict[str, Settings] = {
    "fast": Settings(
        steps=30,
        learning_rate=0.0035,
        image_size=224,
        small_image_size=224,
        train_size=160,
        film_from=None,
        hold_out=0.25,
    ),
    "paper": _PAPER,
    "bit": _BIT,  # BiT as published
    # Of the paper's comparison of adapters: 100 epochs of 1000 images, as in its sources.
    "adapters": replace(_PAPER, steps=1600, learning_rate=1e-3, weight_decay=1e-4, batch=64, image_size=224),
    "paper_v2m": replace(_PAPER, steps=1000),
    "orbit_b0": replace(_PAPER, steps=50, learning_rate=0.007, image_size=224),
    "orbit_bit": replace(_PAPER, steps=50, learning_rate=0.003, image_size=224),
    # What one client does in one round, and the centrally or locally trained bounds.
    "federated_cifar100": replace(_PAPER, steps=10, learning_rate=0.003),
    "federated_quickdraw": replace(_PAPER, steps=10, learning_rate=0.006),
    "bound_cifar100": replace(_PAPER, steps=400, learning_rate=0.003),
    "bound_quickdraw_lower": replace(_PAPER, steps=400, learning_rate=0.006),
    "bound_quickdraw_upper": replace(_PAPER, steps=3000, learning_rate=0.006),
}


def preset(name: str) -> Settings:
    if name not in PRESETS:
        raise invalid_choice("The preset", name, PRESETS)
    return PRESETS[name]


def _at_least(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"{name} cannot be {value!r}.", f"It has to be a whole number of at least {least}.")
