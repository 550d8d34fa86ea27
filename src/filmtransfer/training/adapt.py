"""From a bare model and a task's images to an adapted one: fine-tune, choose how far, build the head."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from ..episodes import choose_split, has_query_images
from ..heads import SingularError
from ..model import AdaptedModel
from ..seeding import make_generator
from .baselines.batch import train_batches
from .config import TrainingConfig
from .finetune.activations import Activations, check_budget
from .finetune.episodic import finetune
from .finetune.gradient import NonFiniteError
from .finetune.interpolation import WITHOUT_ESTIMATE, choose, hold_out, interpolate, snapshot
from .finetune.loop import History, Watch
from .profiler import Profile


@dataclass(frozen=True)
class Adapted:
    """How the adaptation went, and the support features under the final ψ."""

    history: History
    features: Tensor
    share: float = 0.0  # of the way that fine-tuning went
    scores: dict[float, float] = field(default_factory=dict)
    held: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))  # left out of fine-tuning

    def unseen(self) -> Tensor:
        """Which images ψ has not seen ((N) bool): those held out, or all where ψ was not moved."""
        if self.history.steps == 0 or self.share == 0:
            return torch.ones(len(self.features), dtype=torch.bool)
        return torch.isin(torch.arange(len(self.features)), self.held)

    def results(self) -> dict[str, Any]:
        return {
            "steps": self.history.steps,
            "stopped": self.history.stopped,
            "share": self.share,
            "scores": {str(share): round(score, 4) for share, score in self.scores.items()},
        }


def adapt(
    model: AdaptedModel,
    pixels: Tensor,
    small: Tensor,
    labels: Tensor,
    config: TrainingConfig,
    *,
    seed: int,
    watch: Watch | None = None,
    profile: Profile | None = None,
) -> Adapted:
    """Fine-tune on ``small`` images, then build the head from the full-size ``pixels``."""
    linear = model.head.name == "linear"
    nothing = config.steps == 0 or not (
        model.backbone_parameters() if linear else model.trainable_parameters()
    )
    if nothing or not (linear or has_query_images(labels)):
        history = History(stopped="done" if nothing else "one-shot")
        return Adapted(history, _configure(model, pixels, labels))
    start = snapshot(model)
    profile = profile or Profile()
    profile.device = model.backbone.device
    if model.has_below:
        with torch.no_grad():  # said now, and not after the fine-tuning
            check_budget(model.below(pixels[:1]), len(pixels), config.cache_mb)
    if linear:
        rule = config.batch_rule(len(labels), pixels.shape[-1])
        history = train_batches(
            model,
            small,
            labels,
            rule,
            seed=seed,
            micro_batch=config.micro_batch,
            watch=watch,
            time_limit=config.time_limit,
            cache_mb=config.cache_mb,
            profile=profile,
        )
        if rule.zero_head and history.steps > 1:  # its own head, trained with the rest
            features = model.features(pixels)
            if model.head.is_finite() and bool(torch.isfinite(features).all()):
                return Adapted(history, features, 1.0)
        return _deliver(model, start, pixels, labels, history, 1.0)
    config = config.override(split=choose_split(config.split, len(labels)))
    kept, held = hold_out(labels, config.hold_out, make_generator(seed, "hold out"))
    history = finetune(
        model,
        small[kept],
        labels[kept],
        config,
        seed=seed,
        watch=watch,
        profile=profile,
    )
    history.not_finite = kept[history.not_finite].tolist()
    if len(held) == 0 or history.steps == 0:
        share = 1.0 if config.hold_out == 0 else WITHOUT_ESTIMATE
        return replace(_deliver(model, start, pixels, labels, history, share), held=held)
    end = snapshot(model)
    try:
        with profile.phase("how far to go, once"):
            choice = choose(
                model, start, end, Activations(model, pixels, config.cache_mb), labels, kept, held
            )
    except KeyboardInterrupt:  # impatient, but not to be punished with nothing
        history.stopped = "interrupted"
        interpolate(model, start, end, 1.0)
        return replace(_deliver(model, start, pixels, labels, history, WITHOUT_ESTIMATE), held=held)
    if not bool(torch.isfinite(choice.features).all()):
        return _deliver(model, start, pixels, labels, history, 0.0)
    model.build_head(choice.features, labels)
    return Adapted(history, choice.features, choice.share, choice.scores, held)


def _deliver(
    model: AdaptedModel, start: list[Tensor], pixels: Tensor, labels: Tensor, history: History, share: float
) -> Adapted:
    """Go ``share`` of the way from the start to where the model is; back to the start if that is ruin."""
    interpolate(model, start, snapshot(model), share)
    try:
        features = _configure(model, pixels, labels)
        whole = model.head.is_finite()
    except (SingularError, NonFiniteError):
        whole = False
    if not whole:
        history.stopped, share = "not finite", 0.0
        interpolate(model, start, start, 0.0)
        features = _configure(model, pixels, labels)
    return Adapted(history, features, share)


def _configure(model: AdaptedModel, pixels: Tensor, labels: Tensor) -> Tensor:
    """Build the head; if the backbone gives no finite features for some image, name it."""
    features = model.features(pixels)
    bad = torch.nonzero(~torch.isfinite(features).all(1)).flatten()
    if len(bad):
        raise NonFiniteError(bad.tolist())
    return model.build_head(features, labels)
