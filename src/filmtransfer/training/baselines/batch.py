"""Batch training of a linear head: the ordinary way, and the paper's baselines.

What moves with the head is the model's body: an adapter (with FiLM: BiT-FiLM) or every weight (BiT). The rule says
how: the published BiT-HyperRule, or a few steps of Adam from the logistic regression on the frozen features,
so that step 0 is the FineTuner baseline.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from ...errors import InputError
from ...model import AdaptedModel
from ...seeding import make_generator, permutation
from ..finetune.activations import Activations
from ..finetune.gradient import StepResult
from ..finetune.loop import History, Watch, run_steps
from ..profiler import Profile


class Rule(Protocol):
    """How batches are trained."""

    @property
    def steps(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def mixup(self) -> float: ...
    @property
    def zero_head(self) -> bool: ...
    def rate(self, step: int) -> float: ...
    def optimiser(self, learned: Iterable[nn.Parameter]) -> torch.optim.Optimizer: ...
    def choose(self, count: int, generator: torch.Generator) -> Tensor | None: ...
    def augment(self, pixels: Tensor, generator: torch.Generator) -> Tensor: ...


class AsTheyAre:
    """Shuffled batches of images as they are: their activations below what learns may be kept."""

    mixup = 0.0

    def choose(self, count: int, generator: torch.Generator) -> Tensor | None:
        del count, generator
        return None

    def augment(self, pixels: Tensor, generator: torch.Generator) -> Tensor:
        del generator
        return pixels


@dataclass(frozen=True)
class Cosine(AsTheyAre):
    """Adam with a cosine decay; images as they are."""

    steps: int
    learning_rate: float
    batch: int = 32
    weight_decay: float = 0.0
    zero_head = False

    def rate(self, step: int) -> float:
        return self.learning_rate * (1 + math.cos(math.pi * step / max(self.steps, 1))) / 2

    def optimiser(self, learned: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(learned, lr=self.learning_rate, weight_decay=self.weight_decay)


@dataclass(frozen=True)
class Constant(AsTheyAre):
    """SGD with momentum at one rate; images as they are (the paper's federated BiT)."""

    steps: int
    learning_rate: float
    batch: int = 32
    weight_decay: float = 0.0
    momentum: float = 0.9
    zero_head = True

    def rate(self, step: int) -> float:
        del step
        return self.learning_rate

    def optimiser(self, learned: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.SGD(
            learned, lr=self.learning_rate, momentum=self.momentum, weight_decay=self.weight_decay
        )


def train_batches(
    model: AdaptedModel,
    pixels: Tensor,
    labels: Tensor,
    rule: Rule,
    *,
    seed: int = 0,
    micro_batch: int = 64,
    watch: Watch | None = None,
    time_limit: float | None = None,
    cache_mb: float = 0,
    profile: Profile | None = None,
    embed: Activations | None = None,
    begin: tuple[Tensor, Tensor] | None = None,
    pull: float = 0.0,
) -> History:
    """Take the rule's steps on shuffled batches. Norm statistics stay frozen.

    ``begin`` is a head (weight, bias) to go on from, perhaps with classes that these images do not have;
    ``pull`` is FedProx's μ.
    """
    if model.head.trained_by != "batches":
        raise InputError(
            f"Batch training is for the linear head, not {model.head.name}.", "Use fine-tuning by episodes."
        )
    if begin is None:
        weight, bias = _first_head(model, pixels, labels, rule.zero_head)
    else:
        weight, bias = nn.Parameter(begin[0].clone()), nn.Parameter(begin[1].clone())
    model.head.state = (weight.detach(), bias.detach())  # the same memory: always as far as training is
    learned = [*model.backbone_parameters().values(), weight, bias]
    optimiser = rule.optimiser(learned)
    profile = profile or Profile()
    plain = isinstance(rule, AsTheyAre)
    if embed is None:
        with profile.phase("activations below FiLM, once"):
            embed = Activations(model, pixels, cache_mb if plain else 0)
    kept = embed
    generator = make_generator(seed, "batches")
    order = torch.empty(0, dtype=torch.long)

    def next_batch() -> Tensor:
        nonlocal order
        repeated = rule.choose(len(labels), generator)
        if repeated is not None:
            return repeated
        while len(order) < min(rule.batch, len(labels)):
            order = torch.cat([order, permutation(len(labels), generator)])
        chosen, order = order[: rule.batch], order[rule.batch :]
        return chosen

    def backward() -> StepResult:
        chosen = next_batch()
        share, partner = _mixture(len(chosen), rule.mixup, generator)
        squares = None if plain else rule.augment(pixels[chosen], generator)
        total = correct = 0.0
        with profile.step():
            for part in torch.arange(len(chosen)).split(micro_batch):
                if squares is None:
                    features = kept(chosen[part])
                elif share == 1:
                    features = model.embed(squares[part])
                else:
                    features = model.embed(share * squares[part] + (1 - share) * squares[partner[part]])
                logits = model.head.evaluate((weight, bias), features)
                truth, other = (labels[chosen[i]].to(logits.device) for i in (part, partner[part]))
                loss = share * _loss(logits, truth) + (1 - share) * _loss(logits, other)
                profile.mark("forward")
                (loss / len(chosen)).backward()
                profile.mark("backward")
                total += float(loss.detach())
                correct += float((logits.detach().argmax(1) == truth).sum())
        return StepResult(total / len(chosen), correct / len(chosen), len(chosen))

    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: rule.rate(step) / optimiser.defaults["lr"]
    )
    return run_steps(
        backward,
        learned,
        optimiser,
        rule.steps,
        watch=watch,
        time_limit=time_limit,
        schedule=schedule,
        mark=profile.mark,
        pull=pull,
    )


def _first_head(
    model: AdaptedModel, pixels: Tensor, labels: Tensor, zero: bool
) -> tuple[nn.Parameter, nn.Parameter]:
    if zero:
        model.head.zeros(torch.bincount(labels), model.backbone.features, model.backbone.device)
    else:
        model.configure(pixels, labels)
    weight, bias = model.head.configured()
    return nn.Parameter(weight.clone()), nn.Parameter(bias.clone())


def _mixture(count: int, alpha: float, generator: torch.Generator) -> tuple[float, Tensor]:
    """One share λ ~ Beta(α, α) for a batch, and each image's partner."""
    if alpha == 0:
        return 1.0, torch.arange(count)
    # A share of two Gamma variables is a Beta one; torch's own Beta takes no generator.
    a, b = (_gamma(alpha, generator) for _ in range(2))
    return a / (a + b) if a + b > 0 else 0.5, permutation(count, generator)


def _gamma(alpha: float, generator: torch.Generator) -> float:
    shape = torch.full((1,), alpha, dtype=torch.float64)
    return float(torch._standard_gamma(shape, generator=generator))


def _loss(logits: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits, labels, reduction="sum")
