"""Check the settings of a training run without torch, so that a mistake is reported before anything is imported."""

from __future__ import annotations

from collections.abc import Mapping
from operator import index
from typing import Any

from ..backbones import record_for
from ..errors import UsageError
from ..heads import HEADS, make_head
from ..model.predictor import Prior, log_prior
from ..runtime.weights_index import weights_source
from .config import TrainingConfig
from .presets import preset


def training_config(preset_name: str, head: str, chosen: Mapping[str, Any]) -> TrainingConfig:
    """Return the preset, with the ``chosen`` settings (None: not chosen) in place of its own."""
    config = preset(preset_name, **chosen)
    kind = HEADS.get(head)  # an unknown name is an error of make_head
    if config.rule == "hyperrule" and kind is not None and kind.trained_by != "batches":
        raise UsageError(
            f"The BiT-HyperRule trains a linear head, not {head}.", "Use head='linear', or another preset."
        )
    return config


def check_seed(seed: object) -> None:
    """Raise an error for a seed that is not a whole number, of Python or numpy."""
    try:
        index(seed)  # type: ignore[arg-type]
    except TypeError:
        raise UsageError(f"seed cannot be {seed!r}.", "It is a whole number.") from None


def check_settings(
    backbone: str, weights: str | None, head: str, head_options: Mapping[str, Any] | None, prior: Prior
) -> None:
    """Raise an error for a name that does not exist, an option the head does not have, or missing weights."""
    make_head(head, **(head_options or {}))
    record_for(backbone)
    if weights is not None:
        weights_source(backbone, weights)
    if isinstance(prior, str):
        log_prior(prior, [1, 1])
