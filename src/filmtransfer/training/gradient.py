"""The exact gradient of the episode's loss, in bounded memory.

Support features are computed once, with their graph. Query images pass in micro-batches against
detached copies of what the head needs of the support (``head.build``'s result); the gradient that
gathers on those copies then goes through the support graph once. An image that is both support and
query is computed once. Memory: the support graph and one micro-batch, however large the query set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ..episodes import Episode
from ..heads import Head


@dataclass(frozen=True)
class StepResult:
    """Mean loss and accuracy on the query images of an episode."""

    loss: float
    accuracy: float
    images: int


def accumulate(
    embed: Callable[[Tensor], Tensor], head: Head, episode: Episode, micro_batch: int
) -> StepResult:
    """Add the gradient of the mean query loss to the parameters' ``.grad``.

    ``embed`` maps image indices to features (B, D) with a graph.
    """
    total = len(episode.query)
    parts = [embed(chunk) for chunk in episode.support.split(micro_batch)]
    support = torch.cat(parts)
    state = head.build(support, episode.support_labels)
    copies = tuple(tensor.detach().requires_grad_(tensor.requires_grad) for tensor in state)

    place, again = _find(episode.query, episode.support)
    loss_sum, right = 0.0, 0

    def lossof(logits: Tensor, labels: Tensor) -> Tensor:
        nonlocal loss_sum, right
        loss = F.cross_entropy(logits, labels, reduction="sum") / total
        loss_sum += float(loss.detach())
        right += int((logits.detach().argmax(1) == labels).sum())
        return loss

    fresh = torch.nonzero(~again).flatten()
    for chunk in fresh.split(micro_batch):
        logits = head.evaluate(copies, embed(episode.query[chunk]))
        lossof(logits, episode.query_labels[chunk]).backward()

    roots: list[Tensor] = []
    gradients: list[Tensor | None] = []
    for tensor, copy in zip(state, copies, strict=True):
        if copy.grad is not None:
            roots.append(tensor)
            gradients.append(copy.grad)
    if bool(again.any()):
        logits = head.evaluate(state, support[place[again]])
        roots.append(lossof(logits, episode.query_labels[again]))
        gradients.append(None)
    torch.autograd.backward(roots, gradients)

    return StepResult(loss_sum, right / total, len(episode.support) + len(fresh))


def _find(query: Tensor, support: Tensor) -> tuple[Tensor, Tensor]:
    """For each query image its place in the support set, and whether it is there at all."""
    order = torch.argsort(support)
    ranked = support[order]
    at = torch.searchsorted(ranked, query).clamp(max=len(ranked) - 1)
    return order[at], ranked[at] == query
