"""Meta-training of Simple CNAPs on episodes of different datasets or users.

The gradient of a task's loss flows through the head and the backbone to ψ, and from there to the generators. The graph is
cut at ψ, so that the images can be processed in micro-batches: the gradient is accumulated on copies of ψ and then passes
through the generators once. It is exact; memory is that of a micro-batch and the support set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ... import film
from ...backbones import Backbone
from ...episodes import Episode, episodes, video_episodes
from ...errors import InputError
from ...heads.mahalanobis import Mahalanobis
from ...model import AdaptedModel, Body
from ...seeding import integer, make_generator
from ...training.assess.evaluation import mean_interval
from ...training.callbacks import NO_CALLBACKS, Callbacks
from ...training.config import TrainingConfig
from ...training.finetune.gradient import StepResult, accumulate
from ...training.finetune.loop import History, run_steps
from .film_generator import CNAPs


@dataclass(frozen=True)
class TaskSource:
    """A source of tasks: images of a dataset, or clips of a user's videos (T frames per label)."""

    name: str
    pixels: Tensor  # (N·T, 3, S, S)
    labels: Tensor  # (N)
    length: int = 1  # T
    videos: Tensor | None = None  # (N)

    def tasks(self, config: TrainingConfig, seed: int) -> Iterator[Episode]:
        """Return episodes that are split again each time; no video is on both sides."""
        if self.videos is not None:
            return video_episodes(
                self.labels, self.videos, config.support_size, seed, max_query=config.max_query
            )
        return episodes(self.labels, "resplit", config.support_size, seed, config.max_query)

    def frames(self, indices: Tensor) -> Tensor:
        """Return the images, or the frames of the clips, at ``indices``."""
        rows = (indices[:, None] * self.length + torch.arange(self.length)).flatten()
        return self.pixels[rows]


META_TRAINING = TrainingConfig(
    steps=200,
    learning_rate=1e-4,
    support_size=50,
    max_query=50,
    image_size=96,
    micro_batch=32,
    split="resplit",
)
PENALTY = 1e-3  # on the squares of Δγ and Δβ


def bare_model(backbone: Backbone, image_size: int) -> AdaptedModel:
    """Return the frozen backbone with FiLM layers and the Mahalanobis head."""
    return AdaptedModel(backbone, Mahalanobis(), image_size, body=Body(train="none"))


def embedder(model: AdaptedModel, source: TaskSource, psi: dict[str, Tensor]) -> Callable[[Tensor], Tensor]:
    """Return a function from indices to features under ψ, differentiable with respect to ψ."""

    def embed(indices: Tensor) -> Tensor:
        frames = source.frames(indices)
        with film.per_sample(model.network, [psi] * len(frames)):
            features = model.embed(frames)
        clips: Tensor = features.unflatten(0, (len(indices), source.length)).mean(1)
        return clips

    return embed


@torch.no_grad()
def bare_features(model: AdaptedModel, source: TaskSource) -> Tensor:
    """Compute the features of the frozen backbone, the input of the set encoder."""
    features = model.features(source.pixels)
    clips: Tensor = features.unflatten(0, (len(source.labels), source.length)).mean(1)
    return clips


def task_gradient(
    cnaps: CNAPs,
    model: AdaptedModel,
    source: TaskSource,
    bare: Tensor,
    task: Episode,
    config: TrainingConfig,
    penalty: float = PENALTY,
) -> StepResult:
    """Add the gradient of a task's loss to the parameters of the set encoder and the generators."""
    changes = cnaps.changes(bare[task.support])
    copies = {name: (d.detach() + name.endswith("gamma")).requires_grad_() for name, d in changes.items()}
    result = accumulate(embedder(model, source, copies), model.head, task, config.micro_batch)
    gradients = []
    for name, delta in changes.items():
        of_loss, of_penalty = copies[name].grad, 2 * penalty * delta.detach()
        gradients.append(of_penalty if of_loss is None else of_loss + of_penalty)
    torch.autograd.backward(list(changes.values()), gradients)
    return result


def meta_train(
    cnaps: CNAPs,
    model: AdaptedModel,
    sources: Sequence[TaskSource],
    config: TrainingConfig,
    *,
    seed: int = 0,
    callbacks: Callbacks = NO_CALLBACKS,
) -> History:
    """Train on one task per step, of a source drawn at random."""
    if not sources:
        raise InputError("There is nothing to meta-train on.", "Name a dataset, or ORBIT's folder.")
    for source in sources:
        if len(torch.unique(source.labels)) < 2:
            raise InputError(f"{source.name} has one class.", "A task needs at least two.")
    bare = [bare_features(model, source) for source in sources]
    tasks = [source.tasks(config, seed * 1000 + i) for i, source in enumerate(sources)]
    generator = make_generator(seed, "sources")
    parameters = list(cnaps.parameters())

    def backward() -> StepResult:
        i = integer(0, len(sources) - 1, generator)
        return task_gradient(cnaps, model, sources[i], bare[i], next(tasks[i]), config)

    return run_steps(
        backward,
        parameters,
        torch.optim.Adam(parameters, lr=config.learning_rate),
        config.steps or 0,
        callbacks=callbacks,
        time_limit=config.time_limit,
    )


@torch.no_grad()
def task_accuracy(
    cnaps: CNAPs | None, model: AdaptedModel, source: TaskSource, task: Episode, batch: int = 32
) -> float:
    """Return the accuracy on a task's query images; without ``cnaps``, that of the frozen backbone."""
    both = torch.unique(torch.cat([task.support, task.query]))
    support, query = (torch.searchsorted(both, indices) for indices in (task.support, task.query))
    features = torch.cat([embedder(model, source, {})(part) for part in both.split(batch)])
    if cnaps is not None:
        psi = cnaps.film(features[support])
        features = torch.cat([embedder(model, source, psi)(part) for part in both.split(batch)])
    head = model.head.configure(features[support], task.support_labels)
    predicted = head.logits(features[query]).argmax(1).cpu()
    return float((predicted == task.query_labels).double().mean())


def compare(
    cnaps: CNAPs, model: AdaptedModel, source: TaskSource, config: TrainingConfig, tasks: int, seed: int
) -> dict[str, Any]:
    """Compare the accuracy of the frozen backbone and of generated FiLM on tasks of held-out classes."""
    episode_iterator = source.tasks(config, seed * 1000 + 999)
    drawn = [next(episode_iterator) for _ in range(tasks)]
    frozen = [task_accuracy(None, model, source, task) for task in drawn]
    generated = [task_accuracy(cnaps, model, source, task) for task in drawn]
    gain, interval = mean_interval([b - a for a, b in zip(frozen, generated, strict=True)])
    return {
        "set": source.name,
        "classes": len(torch.unique(source.labels)),
        "tasks": tasks,
        "frozen": sum(frozen) / tasks,
        "generated": sum(generated) / tasks,
        "gain": gain,
        "interval": interval,
    }
