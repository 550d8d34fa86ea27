"""The exact gradient of the episode's loss, in bounded memory.

Support features are computed once, with their graph. Query images pass in micro-batches against detached copies of
the head's state; the gradient that accumulates on those copies then goes through the head and the support graph once.
An image that is both support and query is computed once. Memory: the support graph and one micro-batch, however large
the query set. Of several processes each computes its share of the support and query images; head and loss are cheap,
so every process computes those for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ...episodes import Episode
from ...errors import UsageError, check_count
from ...heads import Head, map_state
from ..profiler import DISABLED, Profiler
from .parallel import World

Embed = Callable[[Tensor], Tensor]  # image indices (B) to features (B, D)


@dataclass(frozen=True)
class StepResult:
    """Mean loss and accuracy on the query images of an episode."""

    loss: float
    accuracy: float
    images: int


class NonFiniteError(Exception):
    """A loss, gradient or feature is not finite; ``images`` are the indices of the images concerned, if known."""

    def __init__(self, images: list[int] | None = None) -> None:
        super().__init__()
        self.images = images or []


class _QueryLoss:
    """Sums loss and accuracy over the query images of an episode."""

    def __init__(self, images: int) -> None:
        self.images = images
        self.loss = 0.0
        self.correct = 0
        self.not_finite = torch.zeros(images, dtype=torch.float64)  # 1 for an image with such features

    def add(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the part of the mean loss that these images contribute."""
        labels = labels.to(logits.device)
        loss = F.cross_entropy(logits, labels, reduction="sum") / self.images
        self.loss += float(loss.detach())
        self.correct += int((logits.detach().argmax(1) == labels).sum())
        return loss


def accumulate(
    embed: Embed,
    head: Head,
    episode: Episode,
    micro_batch: int,
    *,
    world: World | None = None,
    profiler: Profiler = DISABLED,
) -> StepResult:
    """Add the gradient of the mean query loss to the parameters' ``.grad``.

    ``embed`` maps image indices to features (B, D) with a graph. Of several processes each adds its own part of the
    gradient, which ``world.add_gradients`` sums.
    """
    world = world or World()
    _check(episode, micro_batch, world)
    total, mine = _QueryLoss(len(episode.query)), world.share(len(episode.support))
    own = torch.cat([embed(chunk) for chunk in episode.support[mine].split(micro_batch)])
    support = world.join(own.detach(), len(episode.support)).requires_grad_(own.requires_grad)
    if bool((rows := _not_finite(support)).any()):  # every process sees the same rows
        raise NonFiniteError(episode.support[rows > 0].tolist())
    profiler.end_phase("support: forward")
    state = head.build(support, episode.support_labels)
    copies = map_state(lambda tensor: tensor.detach().requires_grad_(tensor.requires_grad), state)
    profiler.end_phase("head: build")

    support_index, shared = _find(episode.query, episode.support)
    fresh, again = torch.nonzero(~shared).flatten(), torch.nonzero(shared).flatten()
    for chunk in fresh[world.share(len(fresh))].split(micro_batch):
        query = embed(episode.query[chunk])
        total.not_finite[chunk] = _not_finite(query)
        profiler.end_phase("query: forward")
        loss = total.add(head.evaluate(copies, query), episode.query_labels[chunk])
        profiler.end_phase("head: logits and loss")
        loss.backward()
        profiler.end_phase("query: backward")

    used = [(tensor, copy.grad) for tensor, copy in zip(state, copies, strict=True) if copy.grad is not None]
    roots, gradients = [tensor for tensor, _ in used], [gradient for _, gradient in used]
    again = again[world.share(len(again))]
    if len(again):  # query images whose features are those of the support set
        logits = head.evaluate(state, support[support_index[again]])
        roots.append(total.add(logits, episode.query_labels[again]))
        gradients.append(torch.ones_like(roots[-1]))
    if roots:
        backward_from(roots, gradients)
    profiler.end_phase("head: backward")
    if own.requires_grad:
        gradient = torch.zeros_like(support) if support.grad is None else support.grad
        backward_from([own], [world.add(gradient)[mine]])
    profiler.end_phase("support: backward")
    return _result(total, episode, len(episode.support) + len(fresh), world)


class _Root(torch.autograd.Function):
    """A scalar whose gradient with respect to each tensor is given."""

    @staticmethod
    def forward(ctx: Any, gradients: Sequence[Tensor], *tensors: Tensor) -> Tensor:
        ctx.gradients = gradients
        return tensors[0].new_zeros(())

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor | None, ...]:
        return None, *ctx.gradients


def backward_from(tensors: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
    """Do what ``torch.autograd.backward(tensors, gradients)`` does, which imports sympy to compare the shapes."""
    root: Tensor = _Root.apply(gradients, *tensors)  # type: ignore[no-untyped-call]
    root.backward()


def _check(episode: Episode, micro_batch: int, world: World) -> None:
    check_count("micro_batch", micro_batch)
    if len(episode.support) < world.size:
        raise UsageError(
            f"{world.size} processes cannot share {len(episode.support)} support images.",
            "Start fewer processes, or raise support_size.",
        )


def _result(total: _QueryLoss, episode: Episode, images: int, world: World) -> StepResult:
    """Sum loss and accuracy over all processes."""
    own = torch.tensor([total.loss, total.correct], dtype=torch.float64)
    sums = world.add(torch.cat([own, total.not_finite]))
    if bool((sums[2:] > 0).any()):
        raise NonFiniteError(episode.query[sums[2:] > 0].tolist())
    return StepResult(float(sums[0]), float(sums[1]) / total.images, images)


def _not_finite(features: Tensor) -> Tensor:
    """Return 1 for each row with a value that is not finite, 0 for the others; on the CPU."""
    return (~torch.isfinite(features.detach()).all(1)).cpu().double()


def _find(query: Tensor, support: Tensor) -> tuple[Tensor, Tensor]:
    """Return for each query image its index in the support set, and whether it is there at all."""
    order = torch.argsort(support)
    ranked = support[order]
    at = torch.searchsorted(ranked, query).clamp(max=len(ranked) - 1)
    return order[at], ranked[at] == query
