"""The contract of a head: features in, logits out, and every fact that depends on which head it is.

A head is a function of support features: ``build`` computes its state, ``evaluate`` the logits under a state. The rest
of the package asks the head instead of comparing its name: a new head is one file and one registration. Features are
numpy arrays or torch tensors (arrays.py); the state is of the same kind.

Letters: N support examples, Q query examples, C classes, D features.
"""

from __future__ import annotations

import copy
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal, NamedTuple, Self, TypeVar

import numpy as np

from ..arrays import (
    Array,
    at_least,
    is_finite,
    is_floating,
    is_tensor,
    labels_like,
    like,
    namespace,
    one_hot,
    to_numpy,
    to_tensor,
)
from ..errors import InputError, UsageError
from .scores import Scores
from .statistics import Scatter, Statistics

State = tuple[Array, ...]  # each head has its own NamedTuple
AnyState = TypeVar("AnyState", bound=State)
Shapes = dict[str, tuple[int, ...]]


class Cost(NamedTuple):
    """What an operation takes at most, to the order of magnitude."""

    bytes: int  # of memory
    operations: int  # of arithmetic


TrainedBy = Literal["episodes", "batches"]


class Head(ABC):
    """Maps features (Q, D) to logits (Q, C); softmax of the logits is p(y | z) under equal priors.

    ``build`` is a differentiable function of the support features and the head's own weights; its result is all that
    ``evaluate`` needs, so the fine-tuning step cuts the graph there. Features may be on any device; labels and counts
    are on the CPU. The head's own weights are numpy arrays until torch trains them (``parameters``).
    """

    name: ClassVar[str]
    description: ClassVar[str]  # for people
    trained_by: ClassVar[TrainedBy] = "episodes"
    closed_form: ClassVar[bool] = True  # built in milliseconds, not by an iterative solver
    scatter: ClassVar[Scatter | None] = None  # the second moments ``configure_from`` needs; None: it cannot
    weight_names: ClassVar[tuple[str, ...]] = ()  # of the head's own trainable weights

    weights: PositiveWeights | None = None

    def __init__(self) -> None:
        self.classes: Array = np.empty(0, np.int64)
        self.state: State | None = None
        self.counts: Array | None = None

    # What a head defines

    @abstractmethod
    def build(self, features: Array, labels: Array) -> State:
        """Compute the state from support features (N, D) and labels 0 … C−1 (N)."""

    @abstractmethod
    def evaluate(self, state: State, query: Array) -> Array:
        """Compute the logits (Q, C) of query features (Q, D) under a state."""

    @abstractmethod
    def tensors(self) -> dict[str, Array]:
        """Return the configured head in as few values as its method allows: what an update stores."""

    @abstractmethod
    def restore(self, tensors: Mapping[str, Array], counts: Array) -> Self:
        """Configure the head from ``tensors()``; its own weights have to be set before."""

    @classmethod
    @abstractmethod
    def stored_shapes(cls, classes: int, features: int, examples: int) -> list[Shapes]:
        """Return the possible shapes of ``tensors()``, the paper's last; ``labels`` are int64, the others float32."""

    @classmethod
    def restoring_cost(cls, shapes: Shapes, counts: Sequence[int]) -> Cost:
        """Return what ``restore`` takes for stored tensors of these shapes."""
        del counts
        entries = sum(map(math.prod, shapes.values()))
        return Cost(8 * entries, entries)

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

    def zeros(self, counts: Array, like: Array) -> Self:
        """Configure the head with zeros (C, D) of the kind of ``like`` (D): where batch training from scratch begins."""
        del counts, like
        raise UsageError(
            f"The {self.name} head is not trained by batches.",
            "Use episodic fine-tuning, or the linear head.",
        )

    def approximate(self) -> Self:
        """Return an unconfigured copy that may be less exact where that makes it faster to build."""
        return self.unconfigured()

    def distances(self, support: Array, queries: Array, targets: Array) -> Array:
        """Compute how far queries (Q, D) are from targets (T, D) in the head's own metric (Q, T)."""
        mean = support.mean(0)
        return root(squared_distances(queries - mean, targets - mean))

    # What all heads share

    @classmethod
    def updateable(cls, classes: int, features: int) -> int:
        """Return the paper's count of updateable parameters, the head's own weights included."""
        shapes = cls.stored_shapes(classes, features, 0)[-1]
        return sum(map(math.prod, shapes.values())) + len(cls.weight_names)

    def configure(self, features: Array, labels: Array) -> Self:
        """Build the head from support features (N, D) and integer labels (N).

        Labels may have gaps: column c of the logits belongs to ``classes[c]``, in ascending order.
        """
        labels = labels_like(labels, features)
        xp = namespace(labels)
        self.classes, index = xp.unique(labels, return_inverse=True)
        self.state = self.build(features, index)
        self.counts = xp.bincount(index)
        return self

    def configured(self) -> State:
        """Return the state of a configured head."""
        if self.state is None:
            raise InputError("This head has no classes yet.", "Call configure(features, labels) first.")
        return self.state

    def set_state(self, state: State, counts: Array) -> Self:
        """Configure the head with a state for the classes 0 … C−1 and their counts of examples."""
        self.state, self.counts = state, counts
        self.classes = labels_like(np.arange(len(counts)), counts)
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
        return all(is_finite(array) for array in self.configured() if is_floating(array))

    def logits(self, query: Array) -> Array:
        """Compute log-likelihoods (Q, C) up to one constant per image."""
        return self.evaluate(self.configured(), query)

    # The head's own weights

    def log_weights(self) -> Array | None:
        """Return the logarithms of the head's own weights, which are what is trained; None if it has none."""
        return None if self.weights is None else self.weights.log

    def set_log_weights(self, values: Array | None) -> None:
        """Set the logarithms of the head's own weights."""
        if self.weights is None or values is None:
            return
        if is_tensor(self.weights.log):
            self.weights.log.data.copy_(to_tensor(values))
        else:
            self.weights.log = like(values, self.weights.log).copy()

    @classmethod
    def describe_weights(cls, log_weights: Array | None) -> str:
        """Return the head's own weights as text, such as "e2 = 1.000, e3 = 1.000"."""
        if log_weights is None:
            return "none"
        pairs = zip(cls.weight_names, np.exp(to_numpy(log_weights)).tolist(), strict=True)
        return ", ".join(f"{name} = {value:.3f}" for name, value in pairs)

    def named_parameters(self) -> dict[str, Array]:
        """Return the head's own weights as trainable parameters of torch, which they become at the first call."""
        if self.weights is None:
            return {}
        if not is_tensor(self.weights.log):
            from torch import nn

            self.weights.log = nn.Parameter(to_tensor(self.weights.log))
        return {"weights.log": self.weights.log}

    def parameters(self) -> list[Array]:
        """Return the trainable parameters."""
        return list(self.named_parameters().values())

    def to(self, *place: object) -> Self:
        """Move the head's own weights to a device or dtype of torch."""
        if self.weights is not None:
            (parameter,) = self.parameters()
            moved = parameter.detach().to(*place)
            if (moved.device, moved.dtype) != (parameter.device, parameter.dtype):
                self.weights.log = type(parameter)(moved)
        return self

    def match(self, x: Array) -> Self:
        """Hold the head's own weights as x is: parameters on its device with its dtype, or numpy arrays."""
        if is_tensor(x):
            return self.to(x.device, x.dtype)
        if self.weights is not None:
            self.weights.log = to_numpy(self.weights.log)
        return self


class PositiveWeights:
    """Trainable weights of a head, positive because their logarithms are what is trained.

    At e = 1 a small step in log e is the same step in e, so the paper's learning rate keeps its meaning; unlike with a
    ReLU the weight can always come back.
    """

    def __init__(self, names: Sequence[str], start: Sequence[float]) -> None:
        try:
            values = [float(value) for value in start]
        except (TypeError, ValueError):
            values = []
        if len(values) != len(names) or not all(0 < value < math.inf for value in values):
            raise UsageError(
                f"start cannot be {start!r}.", f"It is one positive number for each of {', '.join(names)}."
            )
        self.log: Array = np.array([math.log(value) for value in values], np.float32)

    def values(self) -> Array:
        """Return the weights themselves."""
        return namespace(self.log).exp(self.log)


def options_of(head: type[Head]) -> list[str]:
    """Return the names of the options that a head takes."""
    return list(inspect.signature(head).parameters)


def map_state(function: Callable[[Array], Array], state: AnyState) -> AnyState:
    """Apply a function to every tensor of a state, which keeps its type."""
    return type(state)(*map(function, state))


def check_support(features: Array, labels: Array) -> int:
    """Return the number of classes after checking that every class has an example."""
    if features.ndim != 2 or labels.ndim != 1 or len(features) != len(labels):
        raise InputError(
            f"Support features {tuple(features.shape)} and labels {tuple(labels.shape)} do not fit.",
            "Features are (N, D), labels (N).",
        )
    if len(labels) == 0:
        raise InputError("The support set is empty.", "Give at least one example of each class.")
    counts = namespace(labels).bincount(labels)
    if bool((counts == 0).any()):
        missing = np.flatnonzero(to_numpy(counts) == 0).tolist()
        raise InputError(
            f"Classes {missing} have no support example.", "Labels must be 0 … C−1 without gaps."
        )
    return len(counts)


def memberships(labels: Array, classes: int, like: Array) -> Array:
    """Return S (N, C): column c is 1/N_c on the examples of class c, so μ_c = Xᵀ S[:, c]."""
    onehot = one_hot(labels, classes, like)
    return onehot / onehot.sum(0)


def class_means(features: Array, labels: Array) -> Array:
    """Compute μ_c (C, D) from features (N, D) and labels 0 … C−1 (N)."""
    return memberships(labels, int(labels.max()) + 1, features).mT @ features


def squared_distances(a: Array, b: Array) -> Array:
    """Compute ‖a_i − b_j‖² for all rows of a and b."""
    return (a * a).sum(1)[:, None] - 2 * a @ b.mT + (b * b).sum(1)


def root(squared: Array) -> Array:
    """Compute distances from squared ones, which rounding may have made negative."""
    return namespace(squared).sqrt(at_least(squared, 0))
