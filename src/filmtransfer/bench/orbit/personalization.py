"""A model for one user: what each method of the paper's table makes of the clips, and what it has to keep for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ... import film
from ...backbones import Backbone, backbone_facts, load_backbone
from ...data import resize
from ...episodes import video_episodes
from ...errors import UsageError
from ...heads import SingularError, make_head
from ...heads.mahalanobis import Mahalanobis
from ...model import AdaptedModel, Body, Hardware
from ...training.adapt import adapt
from ...training.config import TrainingConfig, names
from ...training.finetune.activations import Activations
from ...training.finetune.clips import Clips
from ...training.finetune.episodic import finetune
from ...training.finetune.gradient import NonFiniteError
from ...training.finetune.interpolation import interpolate, snapshot
from ...training.finetune.loop import History
from ...training.presets import preset
from ..cnaps.film_generator import CNAPs
from .tasks import SupportClips


@dataclass(frozen=True)
class OrbitMethod:
    """How a run learns: a method's settings, with the backbone it learns on."""

    head: str
    settings: TrainingConfig
    backbone: Backbone
    hardware: Hardware
    cnaps: CNAPs | None = None

    @property
    def side(self) -> int:
        """The side of the squares that have to be read."""
        if self.settings.rule == "hyperrule" and self.settings.train == "all":
            return max(self.size, self.backbone.fit_size(self.settings.train_size_for(0)))
        return self.size

    @property
    def size(self) -> int:
        return self.backbone.fit_size(self.settings.image_size)


@dataclass(frozen=True)
class PersonalModel:
    """A user's model, and the numbers it consists of: shared by all users, and the user's own."""

    model: AdaptedModel
    history: History
    shared: int
    own: int


def prepare_method(settings: Mapping[str, Any]) -> OrbitMethod:
    """Look at every choice and load the backbone."""
    chosen = {name: settings[name] for name in names() if name in settings}
    found = preset(str(settings.get("preset", "orbit_b0")), **chosen)
    backbone = _backbone(str(settings["backbone"]), settings.get("weights"), found.body().folds)
    hardware = Hardware.choose(str(settings.get("device", "auto")))
    head = str(settings["head"])
    cnaps = None
    if head == "mahalanobis":
        if "cnaps" not in settings:
            raise UsageError(
                "Simple CNAPs has not been trained.", "Name its file with --cnaps ('fit bench cnaps train')."
            )
        cnaps = CNAPs.load(settings["cnaps"], backbone).to(hardware.device)
    else:
        make_head(head)
    if found.steps is not None:  # else the HyperRule's, by the number of frames
        found = found.resolve(backbone)
    return OrbitMethod(head, found, backbone, hardware, cnaps)


def personalize(
    method: OrbitMethod, task: SupportClips, length: int, classes: int, seed: int
) -> PersonalModel:
    """From clips of a user's objects to the user's model."""
    if method.cnaps is not None:
        model, history = _generate(method, method.cnaps, task, length), History()
    elif method.head == "linear" and method.settings.train != "none":
        model, history = _train_batches(method, task, length, seed)
    else:
        model, history = _finetune(method, task, length, seed)
    shared, own = parameter_counts(method, model, classes)
    return PersonalModel(model, history, shared, own)


def parameter_counts(method: OrbitMethod, model: AdaptedModel, classes: int) -> tuple[int, int]:
    """Shared and own numbers by the paper's count (its table of ORBIT)."""
    d, weights = method.backbone.features, backbone_facts(method.backbone.name).parameters
    heads = {
        "lda": (d + 1) * classes,
        "linear": (d + 1) * classes,
        "protonets": d * classes,
        "qda": d * (d + 3) // 2 * classes,
        "mahalanobis": d * (d + 3) // 2 * classes,
    }
    body = sum(p.numel() for p in model.backbone_parameters().values())
    if method.settings.train == "all" and method.cnaps is None:
        return 0, heads[method.head] + body
    generated = 0 if method.cnaps is None else method.cnaps.numbers()
    return weights + generated, heads[method.head] + body


def _finetune(
    method: OrbitMethod, task: SupportClips, length: int, seed: int
) -> tuple[AdaptedModel, History]:
    """FiT: 50 steps on episodes by Algorithm 3; with nothing to learn (FineTuner, ProtoNets) the head at once."""
    settings = method.settings
    model = _model(method, settings.body(), make_head(method.head), seed)
    frames = Activations(model, task.pixels, settings.cache_mb)
    clips = Clips(frames, length)
    history, start = History(), snapshot(model)
    if settings.steps and settings.train != "none":
        tasks = video_episodes(
            task.labels,
            task.videos,
            settings.support_size,
            seed,
            once=settings.split == "split",
            max_query=settings.max_query,
        )
        batch = settings.override(micro_batch=max(1, settings.micro_batch // length))
        history = finetune(model, task.pixels, task.labels, batch, seed=seed, embed=clips, tasks=tasks)
    try:
        _build(model, clips.features(), task.labels)
        whole = model.head.is_finite()
    except SingularError:
        whole = False
    if not whole and history.steps:  # better the frozen backbone than ruin
        history.stopped = "not finite"
        interpolate(model, start, start, 0.0)
        _build(model, clips.features(), task.labels)
    return model, history


def _build(model: AdaptedModel, features: Tensor, labels: Tensor) -> None:
    if not bool(torch.isfinite(features).all()):
        raise SingularError
    model.build_head(features, labels)


def _train_batches(
    method: OrbitMethod, task: SupportClips, length: int, seed: int
) -> tuple[AdaptedModel, History]:
    """BiT: every weight, on the frames as images. A mean of features has the mean of their logits."""
    settings = method.settings
    labels = task.labels.repeat_interleave(length)
    settings = settings.resolve(method.backbone, len(labels))
    model = _model(method, settings.body(), make_head(method.head), seed)
    small = method.backbone.fit_size(settings.train_size_for(0))
    interpolation = method.backbone.pixels.interpolation
    pixels, larger = (resize(task.pixels, size, interpolation) for size in (method.size, small))
    try:
        return model, adapt(model, pixels, larger, labels, settings, seed=seed).history
    except NonFiniteError:
        raise UsageError(
            f"{method.backbone.name} gives no finite features.", "Are its weights whole?"
        ) from None


def _generate(method: OrbitMethod, cnaps: CNAPs, task: SupportClips, length: int) -> AdaptedModel:
    """Simple CNAPs: ψ from the clips in one pass."""
    model = _model(method, Body(train="none"), Mahalanobis(), 0)
    clips = Clips(Activations(model, task.pixels, 0), length)
    with torch.no_grad():
        film.load(model.network, {k: v.cpu() for k, v in cnaps.film(clips.features()).items()})
    _build(model, clips.features(), task.labels)
    return model


def _model(method: OrbitMethod, body: Body, head: Any, seed: int) -> AdaptedModel:
    return AdaptedModel(method.backbone, head, method.size, body=body, seed=seed, hardware=method.hardware)


@lru_cache(maxsize=2)
def _backbone(name: str, weights: str | None, fold: bool) -> Backbone:
    return load_backbone(name, weights, fold=fold)
