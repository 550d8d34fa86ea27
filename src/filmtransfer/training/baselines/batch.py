"""Batch training of a linear head: the ordinary way, and the paper's baselines.

Beside the head, what is trained of the backbone is an adapter (with FiLM: BiT-FiLM) or every weight (BiT). The rule
says how: the published BiT-HyperRule, or a few steps of AdamW from the logistic regression on the frozen features, so
that step 0 is the FineTuner baseline.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from ...errors import InputError
from ...model import AdaptedModel
from ...optimisers import SGD, AdamW
from ...seeding import make_generator, permutation
from ..callbacks import NO_CALLBACKS, Callbacks
from ..config import TrainingConfig
from ..finetune.activations import Activations
from ..finetune.gradient import StepResult
from ..finetune.loop import History, run_steps, with_proximal_term

# Where the head starts: at zero, at the logistic regression on the features, or as the model has it.
InitialHead = Literal["zero", "logistic_regression", "current"]


@dataclass(frozen=True)
class Rule(ABC):
    """A schedule of batch training.

    By default batches consist of shuffled images as they are, so that activations below the trainable part can be
    cached.
    """

    steps: int
    learning_rate: float
    batch: int = 32
    weight_decay: float = 0.0
    initial_head: ClassVar[InitialHead]
    augments: ClassVar[bool] = False
    with_replacement: ClassVar[bool] = (
        False  # draws a batch with replacement where it is larger than the task
    )

    @property
    def mixup(self) -> float:
        """α of the Beta(α, α) that mixes two images; 0: none are mixed."""
        return 0.0

    @abstractmethod
    def learning_rate_at(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""

    def optimiser(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Return SGD with momentum."""
        return SGD(parameters, lr=self.learning_rate, momentum=0.9, weight_decay=self.weight_decay)

    def augment(self, pixels: Tensor, generator: torch.Generator) -> Tensor:
        """Return the images."""
        del generator
        return pixels


class CosineSchedule(Rule):
    """AdamW with a cosine decay of the learning rate."""

    initial_head = "logistic_regression"

    def learning_rate_at(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        return self.learning_rate * (1 + math.cos(math.pi * step / max(self.steps, 1))) / 2

    def optimiser(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Return AdamW."""
        return AdamW(parameters, lr=self.learning_rate, weight_decay=self.weight_decay)


class ConstantSchedule(Rule):
    """SGD with momentum at a constant learning rate, from the head of the model (the paper's federated BiT)."""

    initial_head = "current"

    def learning_rate_at(self, step: int) -> float:
        """Return the learning rate."""
        del step
        return self.learning_rate


@dataclass(frozen=True)
class _Batch:
    """The images of a step, each mixed with a partner: λ x + (1 − λ) x′."""

    indices: Tensor
    mix: float  # λ; 1: not mixed
    partners: Tensor  # positions in the batch
    pixels: Tensor | None  # augmented; None: as they are

    def features(self, model: AdaptedModel, images: Activations, part: Tensor) -> Tensor:
        if self.pixels is None:
            return images(self.indices[part])
        if self.mix == 1:
            return model.embed(self.pixels[part])
        return model.embed(self.mix * self.pixels[part] + (1 - self.mix) * self.pixels[self.partners[part]])


def train_batches(
    model: AdaptedModel,
    images: Activations,
    labels: Tensor,
    rule: Rule,
    config: TrainingConfig,
    *,
    seed: int = 0,
    proximal_mu: float = 0.0,
    callbacks: Callbacks = NO_CALLBACKS,
) -> History:
    """Take the rule's steps on shuffled batches, with frozen norm statistics; ``proximal_mu`` is FedProx's μ.

    Of the config it uses ``micro_batch`` and ``time_limit``: the rule has the rest.
    """
    if model.head.trained_by != "batches":
        raise InputError(
            f"Batch training is for the linear head, not {model.head.name}.", "Use episodic fine-tuning."
        )
    weight, bias = _initial_head(model, images.pixels, labels, rule.initial_head)
    model.head.state = (weight.detach(), bias.detach())  # shares memory with what is trained
    parameters = [*model.backbone_parameters().values(), weight, bias]
    optimiser = rule.optimiser(parameters)
    batches = _batches(images.pixels, rule, make_generator(seed, "batches"))
    profiler = callbacks.profiler

    def backward() -> StepResult:
        batch = next(batches)
        count, total, correct = len(batch.indices), 0.0, 0.0
        with profiler.step():
            for part in torch.arange(count).split(config.micro_batch):
                logits = model.head.evaluate((weight, bias), batch.features(model, images, part))
                truth, other = (
                    labels[batch.indices[i]].to(logits.device) for i in (part, batch.partners[part])
                )
                loss = batch.mix * _loss(logits, truth) + (1 - batch.mix) * _loss(logits, other)
                profiler.end_phase("forward")
                (loss / count).backward()
                profiler.end_phase("backward")
                total += float(loss.detach())
                correct += float((logits.detach().argmax(1) == truth).sum())
        return StepResult(total / count, correct / count, count)

    return run_steps(
        with_proximal_term(backward, parameters, proximal_mu),
        parameters,
        optimiser,
        rule.steps,
        time_limit=config.time_limit,
        schedule=torch.optim.lr_scheduler.LambdaLR(
            optimiser, lambda step: rule.learning_rate_at(step) / optimiser.defaults["lr"]
        ),
        callbacks=callbacks,
    )


def _initial_head(
    model: AdaptedModel, pixels: Tensor, labels: Tensor, initial: InitialHead
) -> tuple[nn.Parameter, nn.Parameter]:
    if initial == "zero":
        model.head.zeros(
            torch.bincount(labels), torch.empty(model.backbone.features, device=model.backbone.device)
        )
    elif initial == "logistic_regression":
        model.configure(pixels, labels)
    weight, bias = model.head.configured()
    return nn.Parameter(weight.clone()), nn.Parameter(bias.clone())


def _batches(pixels: Tensor, rule: Rule, generator: torch.Generator) -> Iterator[_Batch]:
    """Yield batches without end: one permutation of the images after another."""
    order = torch.empty(0, dtype=torch.long)
    while True:
        if rule.with_replacement and len(pixels) < rule.batch:
            indices = torch.randint(len(pixels), (rule.batch,), generator=generator)
        else:
            while len(order) < min(rule.batch, len(pixels)):
                order = torch.cat([order, permutation(len(pixels), generator)])
            indices, order = order[: rule.batch], order[rule.batch :]
        mix, partners = _mixture(len(indices), rule.mixup, generator)
        augmented = rule.augment(pixels[indices], generator) if rule.augments else None
        yield _Batch(indices, mix, partners, augmented)


def _mixture(count: int, alpha: float, generator: torch.Generator) -> tuple[float, Tensor]:
    """Draw λ ~ Beta(α, α) for a batch, and each image's partner."""
    if alpha == 0:
        return 1.0, torch.arange(count)
    # The ratio of two Gamma variables is a Beta variable; torch's own Beta takes no generator.
    shape = torch.full((1,), alpha, dtype=torch.float64)
    a, b = (float(torch._standard_gamma(shape, generator=generator)) for _ in range(2))
    return a / (a + b) if a + b > 0 else 0.5, permutation(count, generator)


def _loss(logits: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits, labels, reduction="sum")
