"""Train a model on the images of a task: fine-tune, choose the interpolation factor, build the head."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ..arrays import to_numpy
from ..data import LoadedImages
from ..episodes import choose_split, has_query_images, hold_out
from ..heads import SingularError
from ..model import AdaptedModel, Support
from ..model.support import digest_of, name_of
from ..seeding import make_generator
from . import phases
from .baselines.batch import train_batches
from .callbacks import NO_CALLBACKS, Callbacks
from .config import TrainingConfig
from .finetune.activations import Activations, check_budget
from .finetune.episodic import finetune
from .finetune.gradient import NonFiniteError
from .finetune.interpolation import Snapshot, choose_alpha, interpolate, snapshot
from .finetune.loop import History
from .finetune.outcome import DEFAULT_ALPHA


@dataclass(frozen=True)
class Adapted:
    """The course of a training run, and the support features under the final ψ."""

    history: History
    features: Tensor
    alpha: float = 0.0  # the interpolation factor
    scores: dict[float, float] = field(default_factory=dict)  # of each factor, on the held-out images
    held_out: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))  # indices

    def unseen(self) -> Tensor:
        """Return which images ψ was not trained on ((N) bool): the held-out ones, or all if ψ is as at the start."""
        if self.history.steps == 0 or self.alpha == 0:
            return torch.ones(len(self.features), dtype=torch.bool)
        return torch.isin(torch.arange(len(self.features)), self.held_out)

    def support(self, loaded: LoadedImages) -> Support:
        """Return what an update can keep of the images: features, names and digests, no pixels."""
        return Support(
            to_numpy(self.features),
            loaded.labels,
            to_numpy(self.unseen()),
            [name_of(source, name) for source, name in zip(loaded.sources, loaded.names, strict=True)],
            [loaded.digests.get(i) or digest_of(source) for i, source in enumerate(loaded.sources)],
        )

    def results(self) -> dict[str, object]:
        """Return what the update file stores of the run."""
        return {
            "steps": self.history.steps,
            "stopped": self.history.stopped,
            "share": self.alpha,
            "scores": {str(alpha): round(score, 4) for alpha, score in self.scores.items()},
        }


def adapt(
    model: AdaptedModel,
    pixels: Tensor,
    train_pixels: Tensor,
    labels: Tensor,
    config: TrainingConfig,
    *,
    seed: int,
    callbacks: Callbacks = NO_CALLBACKS,
) -> Adapted:
    """Train on the images at the size of training, then build the head from those at the size of prediction."""
    by_batches = model.head.trained_by == "batches"
    trains = config.steps != 0 and bool(
        model.backbone_parameters() if by_batches else model.trainable_parameters()
    )
    if not trains or not (by_batches or has_query_images(labels)):
        callbacks.phase(phases.FEATURES)
        history = History(stopped="one-shot" if trains else "done")
        return Adapted(history, _build_head(model, pixels, labels))
    callbacks.phase(phases.ACTIVATIONS)
    callbacks.profiler.start(model.backbone.device)
    if model.has_below:
        with torch.no_grad():  # a budget that is too small is an error before training
            check_budget(model.below(pixels[:1]), len(pixels), config.cache_mb)
    if not by_batches:
        return _train_by_episodes(model, pixels, train_pixels, labels, config, seed, callbacks)
    start = snapshot(model)
    rule = config.batch_rule(len(labels), pixels.shape[-1])
    with callbacks.profiler.timed_once("activations below FiLM"):
        images = Activations(model, train_pixels, 0 if rule.augments else config.cache_mb)
    callbacks.phase(phases.FINE_TUNING)
    history = train_batches(model, images, labels, rule, config, seed=seed, callbacks=callbacks)
    callbacks.phase(phases.FEATURES)
    if rule.initial_head == "zero" and history.steps > 1:  # the trained head is the final one
        features = model.features(pixels)
        if model.head.is_finite() and bool(torch.isfinite(features).all()):
            return Adapted(history, features, 1.0)
    return _finish(model, start, pixels, labels, history, 1.0)


def _train_by_episodes(
    model: AdaptedModel,
    pixels: Tensor,
    train_pixels: Tensor,
    labels: Tensor,
    config: TrainingConfig,
    seed: int,
    callbacks: Callbacks,
) -> Adapted:
    """Fine-tune on episodes, then choose the interpolation factor on the held-out images."""
    start = snapshot(model)
    config = config.override(split=choose_split(config.split, len(labels)))  # by the number of all images
    fit, held_out = hold_out(labels, config.hold_out, make_generator(seed, "hold out"))
    with callbacks.profiler.timed_once("activations below FiLM"):
        images = Activations(model, train_pixels[fit], config.cache_mb)
    callbacks.phase(phases.FINE_TUNING)
    history = finetune(model, images, labels[fit], config, seed=seed, callbacks=callbacks)
    history.not_finite = fit[history.not_finite].tolist()
    if len(held_out) == 0 or history.steps == 0:
        alpha = 1.0 if config.hold_out == 0 else DEFAULT_ALPHA
        callbacks.phase(phases.FEATURES)
        return replace(_finish(model, start, pixels, labels, history, alpha), held_out=held_out)
    end = snapshot(model)
    callbacks.phase(phases.INTERPOLATION)
    try:
        with callbacks.profiler.timed_once("interpolation factor"):
            images = Activations(model, pixels, config.cache_mb)
            choice = choose_alpha(model, start, end, images, labels, fit, held_out)
    except KeyboardInterrupt:  # what was trained is kept all the same
        history.stopped = "interrupted"
        interpolate(model, start, end, 1.0)
        return replace(_finish(model, start, pixels, labels, history, DEFAULT_ALPHA), held_out=held_out)
    if not bool(torch.isfinite(choice.features).all()):
        return _finish(model, start, pixels, labels, history, 0.0)
    model.build_head(choice.features, labels)
    return Adapted(history, choice.features, choice.alpha, choice.scores, held_out)


def _finish(
    model: AdaptedModel, start: Snapshot, pixels: Tensor, labels: Tensor, history: History, alpha: float
) -> Adapted:
    """Interpolate from the start to the current parameters and build the head; return to the start if that fails."""
    interpolate(model, start, snapshot(model), alpha)
    try:
        features = _build_head(model, pixels, labels)
        finite = model.head.is_finite()
    except (SingularError, NonFiniteError):
        finite = False
    if not finite:
        history.stopped, alpha = "not finite", 0.0
        interpolate(model, start, start, 0.0)
        features = _build_head(model, pixels, labels)
    return Adapted(history, features, alpha)


def _build_head(model: AdaptedModel, pixels: Tensor, labels: Tensor) -> Tensor:
    """Build the head from all images and return their features; raise an error if some are not finite."""
    features = model.features(pixels)
    rows = torch.nonzero(~torch.isfinite(features).all(1)).flatten()
    if len(rows):
        raise NonFiniteError(rows.tolist())
    return model.build_head(features, labels)
