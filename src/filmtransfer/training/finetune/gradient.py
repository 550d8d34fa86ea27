"""The exact gradient of the episode's loss, in bounded memory.

Support features are computed once, with their graph. Query images pass in micro-batches against
detached copies of what the head needs of the support (``head.build``'s result); the gradient that
gathers on those copies then goes through the head and the support graph once. An image that is both
support and query is computed once. Memory: the support graph and one micro-batch, however large the
query set. With several processes each has its share of the support and of the query images; head and
loss are cheap, so the head is built by all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ...episodes import Episode
from ...errors import UsageError
from ...heads import Head, map_state
from .parallel import World


@dataclass(frozen=True)
class StepResult:
    """Mean loss and accuracy on the query images of an episode."""

    loss: float
    accuracy: float
    images: int


class NonFiniteError(Exception):
    """Numbers are no longer numbers; ``images`` are the indices of those it showed on, if any."""

    def __init__(self, images: list[int] | None = None) -> None:
        super().__init__()
        self.images = images or []


Mark = Callable[[str], None]


def unmarked(_: str) -> None:
    """Nobody asks where the time goes."""


def accumulate(
    embed: Callable[[Tensor], Tensor],
    head: Head,
    episode: Episode,
    micro_batch: int,
    *,
    world: World | None = None,
    mark: Mark = unmarked,
) -> StepResult:
    """Add the gradient of the mean query loss to the parameters' ``.grad``.

    ``embed`` maps image indices to features (B, D) with a graph. With several processes what is added is
    this one's part of the gradient: ``world.add_gradients`` makes it whole. ``mark(name)`` is called at
    the end of each phase.
    """
    world = world or World()
    if micro_batch < 1:
        raise UsageError(f"A micro-batch of {micro_batch} images is none.", "It has to be at least 1.")
    if len(episode.support) < world.size:
        raise UsageError(
            f"{world.size} processes share {len(episode.support)} support images.",
            "Start fewer processes, or raise support_size.",
        )
    total, mine = len(episode.query), world.share(len(episode.support))
    own = torch.cat([embed(chunk) for chunk in episode.support[mine].split(micro_batch)])
    support = world.join(own.detach(), len(episode.support)).requires_grad_(own.requires_grad)
    if bool((bad := _not_finite(support)).any()):  # every process sees the same rows
        raise NonFiniteError(episode.support[bad > 0].tolist())
    mark("support: forward")
    state = head.build(support, episode.support_labels)
    copies = map_state(lambda tensor: tensor.detach().requires_grad_(tensor.requires_grad), state)
    mark("head: build")

    place, again = _find(episode.query, episode.support)
    loss_sum, right, spoiled = 0.0, 0, torch.zeros(total, dtype=torch.float64)

    def lossof(logits: Tensor, labels: Tensor) -> Tensor:
        nonlocal loss_sum, right
        labels = labels.to(logits.device)
        loss = F.cross_entropy(logits, labels, reduction="sum") / total
        loss_sum += float(loss.detach())
        right += int((logits.detach().argmax(1) == labels).sum())
        return loss

    fresh = torch.nonzero(~again).flatten()
    for chunk in fresh[world.share(len(fresh))].split(micro_batch):
        query = embed(episode.query[chunk])
        spoiled[chunk] = _not_finite(query)
        mark("query: forward")
        loss = lossof(head.evaluate(copies, query), episode.query_labels[chunk])
        mark("head: logits and loss")
        loss.backward()
        mark("query: backward")

    roots: list[Tensor] = []
    gradients: list[Tensor | None] = []
    for tensor, copy in zip(state, copies, strict=True):
        if copy.grad is not None:
            roots.append(tensor)
            gradients.append(copy.grad)
    twice = torch.nonzero(again).flatten()
    twice = twice[world.share(len(twice))]
    if len(twice):
        logits = head.evaluate(state, support[place[twice]])
        roots.append(lossof(logits, episode.query_labels[twice]))
        gradients.append(None)
    if roots:
        torch.autograd.backward(roots, gradients)
    mark("head: backward")
    if own.requires_grad:
        gradient = torch.zeros_like(support) if support.grad is None else support.grad
        own.backward(world.add(gradient)[mine])
    mark("support: backward")

    sums = world.add(torch.cat([torch.tensor([loss_sum, right], dtype=torch.float64), spoiled]))
    if bool((sums[2:] > 0).any()):
        raise NonFiniteError(episode.query[sums[2:] > 0].tolist())
    return StepResult(float(sums[0]), float(sums[1]) / total, len(episode.support) + len(fresh))


def _not_finite(features: Tensor) -> Tensor:
    """1 for each row that is not finite throughout, 0 for the others; on the CPU."""
    return (~torch.isfinite(features.detach()).all(1)).double().cpu()


def _find(query: Tensor, support: Tensor) -> tuple[Tensor, Tensor]:
    """For each query image its place in the support set, and whether it is there at all."""
    order = torch.argsort(support)
    ranked = support[order]
    at = torch.searchsorted(ranked, query).clamp(max=len(ranked) - 1)
    return order[at], ranked[at] == query
