"""Train a model for one user by each method of the paper's table, and count its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from ... import film
from ...backbones import Backbone, backbone_facts, load_backbone
from ...episodes import video_episodes
from ...errors import UsageError
from ...heads import HEADS, Head, SingularError, make_head
from ...model import AdaptedModel, Body, Hardware
from ...model.tensors import resize
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
from ..rows import RunSettings
from .tasks import SupportClips

_load_backbone = lru_cache(maxsize=2)(load_backbone)


@dataclass(frozen=True)
class OrbitMethod:
    """How a run trains: head, training config, backbone and hardware."""

    head: str
    config: TrainingConfig
    backbone: Backbone
    hardware: Hardware
    cnaps: CNAPs | None = None

    @property
    def read_size(self) -> int:
        """The side of the images to read: the HyperRule crops from larger ones."""
        if self.config.rule == "hyperrule" and self.config.train == "all":
            return max(self.size, self.backbone.fit_size(self.config.train_size_for(0)))
        return self.size

    @property
    def size(self) -> int:
        """The side of the images in prediction."""
        return self.backbone.fit_size(self.config.image_size)


@dataclass(frozen=True)
class PersonalModel:
    """A user's model, and its parameters: those shared by all users, and the user's own."""

    model: AdaptedModel
    history: History
    shared: int
    own: int


def prepare_method(settings: RunSettings) -> OrbitMethod:
    """Validate the settings of a run and load its backbone."""
    chosen = {name: settings[name] for name in names() if name in settings}
    config = preset(str(settings.get("preset", "orbit_b0")), **chosen)
    fold = config.body().folds
    backbone = _load_backbone(str(settings["backbone"]), settings.get("weights"), fold=fold)
    hardware = Hardware.choose(str(settings.get("device", "auto")))
    head = str(settings["head"])
    make_head(head)  # raises an error for an unknown head
    cnaps = None
    if "cnaps" in settings:
        cnaps = CNAPs.load(settings["cnaps"], backbone).to(hardware.device)
    if config.steps is not None:  # the HyperRule chooses them by the number of frames
        config = config.resolve(backbone)
    return OrbitMethod(head, config, backbone, hardware, cnaps)


def personalize(
    method: OrbitMethod, task: SupportClips, length: int, classes: int, seed: int
) -> PersonalModel:
    """Train the model of a user on clips of the user's objects."""
    if method.cnaps is not None:
        model, history = _generate(method, method.cnaps, task, length), History()
    elif HEADS[method.head].trained_by == "batches" and method.config.train != "none":
        model, history = _train_batches(method, task, length, seed)
    else:
        model, history = _finetune(method, task, length, seed)
    shared, own = parameter_counts(method, model, classes)
    return PersonalModel(model, history, shared, own)


def parameter_counts(method: OrbitMethod, model: AdaptedModel, classes: int) -> tuple[int, int]:
    """Return the shared and the user's own parameters by the paper's count (its table of ORBIT)."""
    head = HEADS[method.head]
    own = head.updateable(classes, method.backbone.features) - len(
        head.weight_names
    )  # e is not counted there
    own += sum(p.numel() for p in model.backbone_parameters().values())
    if method.config.train == "all" and method.cnaps is None:
        return 0, own
    generator = 0 if method.cnaps is None else method.cnaps.parameter_count()
    return backbone_facts(method.backbone.name).parameters + generator, own


def _finetune(
    method: OrbitMethod, task: SupportClips, length: int, seed: int
) -> tuple[AdaptedModel, History]:
    """Fine-tune by episodes of Algorithm 3 (FiT), or only build the head if nothing is trained (FineTuner, ProtoNets)."""
    config = method.config
    model = _model(method, config.body(), make_head(method.head), seed)
    frames = Activations(model, task.pixels, config.cache_mb)
    clips = Clips(frames, length)
    history, start = History(), snapshot(model)
    if config.steps and config.train != "none":
        tasks = video_episodes(
            task.labels,
            task.videos,
            config.support_size,
            seed,
            once=config.split == "split",
            max_query=config.max_query,
        )
        batch = config.override(micro_batch=max(1, config.micro_batch // length))
        history = finetune(model, clips, task.labels, batch, seed=seed, tasks=tasks)
    try:
        _build(model, clips.features(), task.labels)
        finite = model.head.is_finite()
    except SingularError:
        finite = False
    if not finite and history.steps:  # fall back to the frozen backbone
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
    """Train all weights by the HyperRule with frames as images (BiT); the logits of a mean are the mean of logits."""
    labels = task.labels.repeat_interleave(length)
    config = method.config.resolve(method.backbone, len(labels))
    model = _model(method, config.body(), make_head(method.head), seed)
    train_size = method.backbone.fit_size(config.train_size_for(0))
    interpolation = method.backbone.pixels.interpolation
    pixels, train_pixels = (resize(task.pixels, size, interpolation) for size in (method.size, train_size))
    try:
        return model, adapt(model, pixels, train_pixels, labels, config, seed=seed).history
    except NonFiniteError:
        raise UsageError(
            f"{method.backbone.name} computes features that are not finite.", "Check its weights file."
        ) from None


def _generate(method: OrbitMethod, cnaps: CNAPs, task: SupportClips, length: int) -> AdaptedModel:
    """Generate the FiLM parameters ψ from the clips in one pass (Simple CNAPs)."""
    model = _model(method, Body(train="none"), make_head(method.head), 0)
    clips = Clips(Activations(model, task.pixels, 0), length)
    with torch.no_grad():
        film.load(model.network, {k: v.cpu() for k, v in cnaps.film(clips.features()).items()})
    _build(model, clips.features(), task.labels)
    return model


def _model(method: OrbitMethod, body: Body, head: Head, seed: int) -> AdaptedModel:
    return AdaptedModel(method.backbone, head, method.size, body=body, seed=seed, hardware=method.hardware)
