"""The contract of a head: features in, logits out, and every fact that depends on which head it is.

A head is a function of support features: ``build`` computes its state, ``evaluate`` the logits under a state. The rest
of the package asks the head instead of comparing its name: a new head is one file and one registration.

Letters: N support examples, Q query examples, C classes, D features.
"""

from __future__ import annotations

import copy
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal, Self, TypeVar

import torch
from torch import Tensor, nn

from ..errors import InputError, UsageError
from .scores import Scores
from .statistics import Scatter, Statistics

State = tuple[Tensor, ...]  # each head has its own NamedTuple
AnyState = TypeVar("AnyState", bound=State)
Shapes = dict[str, tuple[int, ...]]
TrainedBy = Literal["episodes", "batches"]


class Head(nn.Module, ABC):
    """Maps features (Q, D) to logits (Q, C); softmax of the logits is p(y | z) under equal priors.

    ``build`` is a differentiable function of the support features and the head's own weights; its result is all that
    ``evaluate`` needs, so the fine-tuning step cuts the graph there. Features may be on any device; labels and counts
    are on the CPU.
    """

    name: ClassVar[str]
    description: ClassVar[str]  # for people
    trained_by: ClassVar[TrainedBy] = "episodes"
    closed_form: ClassVar[bool] = True  # built in milliseconds, not by an iterative solver
    scatter: ClassVar[Scatter | None] = None  # the second moments ``configure_from`` needs; None: it cannot
    weight_names: ClassVar[tuple[str, ...]] = ()  # of the head's own trainable weights

    def __init__(self) -> None:
        super().__init__()
        self.classes: Tensor = torch.empty(0, dtype=torch.long)
        self.state: State | None = None
        self.counts: Tensor | None = None

    # What a head defines

    @abstractmethod
    def build(self, features: Tensor, labels: Tensor) -> State:
        """Compute the state from support features (N, D) and labels 0 … C−1 (N)."""

    @abstractmethod
    def evaluate(self, state: State, query: Tensor) -> Tensor:
        """Compute the logits (Q, C) of query features (Q, D) under a state."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """Return the configured head in as few values as its method allows: what an update stores."""

    @abstractmethod
    def restore(self, tensors: Mapping[str, Tensor], counts: Tensor) -> Self:
        """Configure the head from ``tensors()``; its own weights have to be set before."""

    @classmethod
    @abstractmethod
    def stored_shapes(cls, classes: int, features: int, examples: int) -> list[Shapes]:
        """Return the possible shapes of ``tensors()``, the paper's last; ``labels`` are int64, the others float32."""

    @abstractmethod
    def scores(self) -> Scores:
        """Return the configured head as a float32 module that can be traced into a graph."""

    def options(self) -> dict[str, object]:
        """Return what ``make_head`` needs, beside the name, to make a head like this one."""
        return {}

    def configure_from(self, statistics: Statistics) -> Self:
        """Configure the head from summed statistics: equal to building it from the pooled features."""
        del statistics
        raise UsageError(
            f"The {self.name} head cannot be built from summed statistics.", "Choose another head."
        )

    def zeros(self, counts: Tensor, features: int, device: torch.device | None = None) -> Self:
        """Configure the head with zeros: where batch training from scratch begins."""
        del counts, features, device
        raise UsageError(
            f"The {self.name} head is not trained by batches.",
            "Use episodic fine-tuning, or the linear head.",
        )

    def approximate(self) -> Self:
        """Return an unconfigured copy that may be less exact where that makes it faster to build."""
        return self.unconfigured()

    def distances(self, support: Tensor, queries: Tensor, targets: Tensor) -> Tensor:
        """Compute how far queries (Q, D) are from targets (T, D) in the head's own metric (Q, T)."""
        mean = support.mean(0)
        return squared_distances(queries - mean, targets - mean).clamp(min=0).sqrt()

    # What all heads share

    @classmethod
    def updateable(cls, classes: int, features: int) -> int:
        """Return the paper's count of updateable parameters, the head's own weights included."""
        shapes = cls.stored_shapes(classes, features, 0)[-1]
        return sum(map(math.prod, shapes.values())) + len(cls.weight_names)

    def configure(self, features: Tensor, labels: Tensor) -> Self:
        """Build the head from support features (N, D) and integer labels (N).

        Labels may have gaps: column c of the logits belongs to ``classes[c]``, in ascending order.
        """
        self.classes, index = torch.unique(labels, return_inverse=True)
        self.state = self.build(features, index)
        self.counts = torch.bincount(index)
        return self

    def configured(self) -> State:
        """Return the state of a configured head."""
        if self.state is None:
            raise InputError("This head has no classes yet.", "Call configure(features, labels) first.")
        return self.state

    def set_state(self, state: State, counts: Tensor) -> Self:
        """Configure the head with a state for the classes 0 … C−1 and their counts of examples."""
        self.state, self.counts = state, counts
        self.classes = torch.arange(len(counts), device=counts.device)
        return self

    def unconfigured(self) -> Self:
        """Return a copy with the same weights and options that has no classes yet."""
        state, self.state = self.state, None  # it may belong to a graph, which cannot be copied
        try:
            return copy.deepcopy(self)
        finally:
            self.state = state

    def is_finite(self) -> bool:
        """Tell whether the state of the configured head is finite."""
        return all(bool(torch.isfinite(t).all()) for t in self.configured() if t.is_floating_point())

    def logits(self, query: Tensor) -> Tensor:
        """Compute log-likelihoods (Q, C) up to one constant per image."""
        return self.evaluate(self.configured(), query)

    def forward(self, query: Tensor) -> Tensor:
        """Compute the logits."""
        return self.logits(query)

    def log_weights(self) -> Tensor | None:
        """Return the logarithms of the head's own weights, which are what is trained; None if it has none."""
        weights = getattr(self, "weights", None)
        return weights.log if isinstance(weights, PositiveWeights) else None

    @torch.no_grad()
    def set_log_weights(self, values: Tensor | None) -> None:
        """Set the logarithms of the head's own weights."""
        weights = self.log_weights()
        if weights is not None and values is not None:
            weights.copy_(values)

    @classmethod
    def describe_weights(cls, log_weights: Tensor | None) -> str:
        """Return the head's own weights as text, such as "e2 = 1.000, e3 = 1.000"."""
        if log_weights is None:
            return "none"
        pairs = zip(cls.weight_names, log_weights.exp().tolist(), strict=True)
        return ", ".join(f"{name} = {value:.3f}" for name, value in pairs)


class PositiveWeights(nn.Module):
    """Trainable weights of a head, positive because their logarithms are what is trained.

    At e = 1 a small step in log e is the same step in e, so the paper's learning rate keeps its meaning; unlike with a
    ReLU the weight can always come back.
    """

    def __init__(self, names: Sequence[str], start: Sequence[float]) -> None:
        super().__init__()
        try:
            values = [float(value) for value in start]
        except (TypeError, ValueError):
            values = []
        if len(values) != len(names) or not all(0 < value < math.inf for value in values):
            raise UsageError(
                f"start cannot be {start!r}.", f"It is one positive number for each of {', '.join(names)}."
            )
        logs = torch.tensor([math.log(value) for value in values], dtype=torch.float64)
        self.log = nn.Parameter(logs.to(torch.get_default_dtype()))

    def values(self) -> Tensor:
        """Return the weights themselves."""
        return self.log.exp()


def options_of(head: type[Head]) -> list[str]:
    """Return the names of the options that a head takes."""
    return list(inspect.signature(head).parameters)


def map_state(function: Callable[[Tensor], Tensor], state: AnyState) -> AnyState:
    """Apply a function to every tensor of a state, which keeps its type."""
    return type(state)(*map(function, state))


def check_support(features: Tensor, labels: Tensor) -> int:
    """Return the number of classes after checking that every class has an example."""
    if features.ndim != 2 or labels.ndim != 1 or len(features) != len(labels):
        raise InputError(
            f"Support features {tuple(features.shape)} and labels {tuple(labels.shape)} do not fit.",
            "Features are (N, D), labels (N).",
        )
    if len(labels) == 0:
        raise InputError("The support set is empty.", "Give at least one example of each class.")
    counts = torch.bincount(labels)
    if bool((counts == 0).any()):
        missing = torch.nonzero(counts == 0).flatten().tolist()
        raise InputError(
            f"Classes {missing} have no support example.", "Labels must be 0 … C−1 without gaps."
        )
    return len(counts)


def memberships(labels: Tensor, classes: int, like: Tensor) -> Tensor:
    """Return S (N, C): column c is 1/N_c on the examples of class c, so μ_c = Xᵀ S[:, c]."""
    onehot = torch.nn.functional.one_hot(labels, classes).to(like)
    return onehot / onehot.sum(0)


def class_means(features: Tensor, labels: Tensor) -> Tensor:
    """Compute μ_c (C, D) from features (N, D) and labels 0 … C−1 (N)."""
    return memberships(labels, int(labels.max()) + 1, features).mT @ features


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """Compute ‖a_i − b_j‖² for all rows of a and b."""
    return (a * a).sum(1, keepdim=True) - 2 * a @ b.mT + (b * b).sum(1)
