"""What the three Gaussian heads share: labels, means, covariance weights and priors.

Letters: N support examples, Q query examples, C classes, D features.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Literal, Protocol, Self

import torch
from torch import Tensor, nn

from ..errors import InputError, invalid_choice
from .statistics import Statistics

Divisor = Literal["n-1", "n"]
Side = Literal["auto", "rows", "columns"]
Prior = Literal["uniform", "empirical"] | Tensor

State = tuple[Tensor, ...]


class Head(Protocol):
    """What the rest of the package asks of a head.

    ``build`` is a differentiable function of the support features and the head's own weights;
    what it returns is all that ``evaluate`` needs. The fine-tuning step cuts the graph there. Features
    may be on any device; labels and counts are on the CPU.
    """

    def build(self, features: Tensor, labels: Tensor) -> State: ...
    def evaluate(self, state: State, query: Tensor) -> Tensor: ...


class GaussianHead(nn.Module, ABC):
    """A head that is configured from support features: p(y=c | z) ∝ π_c N(z | μ_c, Σ_c)."""

    name = ""

    def __init__(self) -> None:
        super().__init__()
        self.classes: Tensor = torch.empty(0, dtype=torch.long)
        self.state: State | None = None
        self.counts: Tensor | None = None

    def configure(self, features: Tensor, labels: Tensor) -> Self:
        """Build the head from support features (N, D) and whole-number labels (N).

        Labels may have gaps: column c of the logits belongs to ``classes[c]``, in ascending order.
        """
        self.classes, places = torch.unique(labels, return_inverse=True)
        self.state = self.build(features, places)
        self.counts = torch.bincount(places)
        return self

    def finite(self) -> bool:
        """Whether the configured head is made of numbers."""
        return all(bool(torch.isfinite(t).all()) for t in self.configured() if t.is_floating_point())

    def fresh(self) -> Self:
        """A head like this one, covariance weights and all, that has no classes yet."""
        state, self.state = self.state, None  # it may hang on a graph, which cannot be copied
        try:
            return copy.deepcopy(self)
        finally:
            self.state = state

    def options(self) -> dict[str, Any]:
        """What ``make_head`` needs, beside the name, to make a head like this one."""
        return {}

    def adopt(self, state: State, statistics: Statistics) -> Self:
        """Take over a state that was built in float64 from summed statistics."""
        self.state = tuple(tensor.to(statistics.dtype) for tensor in state)
        self.take(statistics.counts)
        return self

    def take(self, counts: Tensor) -> None:
        """Note the number of examples of the classes 0 … C−1."""
        self.counts = counts
        self.classes = torch.arange(len(counts), device=counts.device)

    def logits(self, query: Tensor) -> Tensor:
        """Log-likelihoods (Q, C) up to one constant per image: softmax of them is p(y | z)."""
        return self.evaluate(self.configured(), query)

    def configured(self) -> State:
        if self.state is None:
            raise InputError("This head has no classes yet.", "Call configure(features, labels) first.")
        return self.state

    def log_probabilities(self, query: Tensor, prior: Prior = "uniform") -> Tensor:
        """log p(y=c | z) (Q, C) under class priors π_c."""
        logits = self.logits(query)
        assert self.counts is not None
        return torch.log_softmax(logits + log_prior(prior, self.counts).to(logits), dim=1)

    def probabilities(self, query: Tensor, prior: Prior = "uniform") -> Tensor:
        """p(y=c | z) (Q, C) under class priors π_c."""
        return self.log_probabilities(query, prior).exp()

    @abstractmethod
    def build(self, features: Tensor, labels: Tensor) -> State:
        """What ``evaluate`` needs, as a differentiable function of the support features."""

    @abstractmethod
    def evaluate(self, state: State, query: Tensor) -> Tensor:
        """Logits (Q, C) of query features under a state."""

    @abstractmethod
    def compact(self) -> dict[str, Tensor]:
        """The configured head in as few numbers as its method allows: what an update stores."""

    @abstractmethod
    def restore(self, tensors: Mapping[str, Tensor], counts: Tensor) -> Self:
        """The inverse of ``compact``; covariance weights have to be set before."""

    @staticmethod
    @abstractmethod
    def updateable(classes: int, features: int) -> int:
        """The paper's count of this head's updateable numbers, its covariance weights included."""

    def forward(self, query: Tensor) -> Tensor:
        return self.logits(query)


class CovarianceWeights(nn.Module):
    """e₁, e₂, e₃: learned, and positive because their logarithms are what is learned.

    At e = 1 a small step in log e is the same step in e, so the paper's learning rate keeps its
    meaning; unlike a ReLU the weight can always come back.
    """

    def __init__(self, start: tuple[float, ...]) -> None:
        super().__init__()
        if any(value <= 0 for value in start):
            raise InputError("Covariance weights must be positive.", f"Got {start}.")
        logs = [math.log(value) for value in start]
        self.log = nn.Parameter(torch.tensor(logs, dtype=torch.float64).to(torch.get_default_dtype()))

    def values(self) -> Tensor:
        return self.log.exp()


def check_support(features: Tensor, labels: Tensor) -> int:
    """The number of classes, after making sure that every class has an example."""
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
    """S (N, C): column c is 1/N_c on the examples of class c, so μ_c = Xᵀ S[:, c]."""
    onehot = torch.nn.functional.one_hot(labels, classes).to(like)
    return onehot / onehot.sum(0)


def divide_by(count: int | Tensor, divisor: Divisor) -> Any:
    """The covariance's divisor; a single example has no spread, so its 0 is divided by 1."""
    if divisor not in ("n-1", "n"):
        raise invalid_choice("The covariance divisor", divisor, ("n-1", "n"))
    less = count - 1 if divisor == "n-1" else count
    return less.clamp(min=1) if isinstance(less, Tensor) else max(less, 1)


def log_prior(prior: Prior, counts: Tensor) -> Tensor:
    """log π_c (C): uniform, N_c/N, or given."""
    if isinstance(prior, str):
        if prior == "uniform":
            return torch.zeros(len(counts), dtype=torch.float64, device=counts.device)
        if prior == "empirical":
            return torch.log(counts.double() / counts.sum())
        raise invalid_choice("The prior", prior, ("uniform", "empirical", "an array of C numbers"))
    given = torch.as_tensor(prior, dtype=torch.float64, device=counts.device)
    if given.shape != counts.shape or not bool((given > 0).all()) or not bool(given.isfinite().all()):
        raise InputError(
            f"The prior has to be {len(counts)} positive numbers.", "One per class, in class order."
        )
    return torch.log(given / given.sum())


def rows_win(side: Side, rows: int, columns: int) -> bool:
    """Whether to work on the N×N side (rows) or the D×D side (columns)."""
    if side == "auto":
        return rows <= columns
    if side in ("rows", "columns"):
        return side == "rows"
    raise invalid_choice("The side", side, ("auto", "rows", "columns"))
