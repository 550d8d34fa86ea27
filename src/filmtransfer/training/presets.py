"""Named training configs: the values, and nothing else.

Those of the paper come from its Training and Evaluation Details; ``fast`` is ours, measured in benchmarks/
(docs/presets.md says what it trades).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from ..errors import check_choice
from .config import TrainingConfig

ALL_WEIGHTS = 1e-4  # Adam's learning rate where all weights are trained; that of FiLM is too high for them

_PAPER = TrainingConfig(steps=400, learning_rate=0.0035, split="paper")

_BIT = TrainingConfig(
    steps=None,
    learning_rate=0.003,
    train="all",
    rule="hyperrule",
    batch=512,
    image_size=480,
    small_image_size=128,
    micro_batch=32,
)

PresetName = Literal[  # for type checkers
    "fast",
    "paper",
    "bit",
    "adapters",
    "paper_v2m",
    "orbit_b0",
    "orbit_bit",
    "federated_cifar100",
    "federated_quickdraw",
    "bound_cifar100",
    "bound_quickdraw_lower",
    "bound_quickdraw_upper",
]

PRESETS: dict[str, TrainingConfig] = {
    "fast": TrainingConfig(
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
    # The paper's comparison of adapters: 100 epochs of 1000 images, as in its sources.
    "adapters": replace(_PAPER, steps=1600, learning_rate=1e-3, weight_decay=1e-4, batch=64, image_size=224),
    "paper_v2m": replace(_PAPER, steps=1000),
    "orbit_b0": replace(_PAPER, steps=50, learning_rate=0.007, image_size=224),
    "orbit_bit": replace(_PAPER, steps=50, learning_rate=0.003, image_size=224),
    # One client in one round, and the centrally or locally trained bounds.
    "federated_cifar100": replace(_PAPER, steps=10, learning_rate=0.003),
    "federated_quickdraw": replace(_PAPER, steps=10, learning_rate=0.006),
    "bound_cifar100": replace(_PAPER, steps=400, learning_rate=0.003),
    "bound_quickdraw_lower": replace(_PAPER, steps=400, learning_rate=0.006),
    "bound_quickdraw_upper": replace(_PAPER, steps=3000, learning_rate=0.006),
}


def preset(name: str, **chosen: Any) -> TrainingConfig:
    """Return a preset, with the ``chosen`` settings (None: not chosen) in place of its own.

    A chosen image size holds for small images too, and training all weights has its own learning rate,
    unless these are chosen as well.
    """
    check_choice("The preset", name, PRESETS)
    chosen = {key: value for key, value in chosen.items() if value is not None}
    if "image_size" in chosen:
        chosen.setdefault("small_image_size", chosen["image_size"])
    config = PRESETS[name].override(**chosen)
    if config.train == "all" and config.rule != "hyperrule" and "learning_rate" not in chosen:
        return replace(config, learning_rate=ALL_WEIGHTS)
    return config
