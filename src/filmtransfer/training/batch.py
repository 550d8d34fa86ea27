"""Batch training of a linear head: the ordinary way, and the paper's baseline.

``what="film"`` moves FiLM and the head (BiT-FiLM), ``what="all"`` every weight (BiT). The head starts
from the logistic regression on the frozen features, so step 0 is the FineTuner baseline.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from .. import film
from ..errors import choices
from ..model import AdaptedModel
from ..seeding import generator, permutation


def train_batches(
    model: AdaptedModel,
    pixels: Tensor,
    labels: Tensor,
    *,
    what: Literal["film", "all"],
    steps: int,
    learning_rate: float,
    batch: int = 32,
    seed: int = 0,
) -> list[float]:
    """Adam with a cosine decay on shuffled batches; returns the losses. Norm statistics stay frozen."""
    if what not in ("film", "all"):
        raise choices("what", what, ("film", "all"))
    model.configure(pixels, labels)
    weight, bias = (nn.Parameter(t.clone()) for t in model.head.configured())
    body = film.parameters(model.network)
    if what == "all":
        body = list(model.network.requires_grad_(True).parameters())
    optimiser = torch.optim.Adam([*body, weight, bias], lr=learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, max(steps, 1))
    stream = generator(seed, "batches")
    order = torch.empty(0, dtype=torch.long)
    losses = []
    for _ in range(steps):
        if len(order) < min(batch, len(labels)):
            order = torch.cat([order, permutation(len(labels), stream)])
        chosen, order = order[:batch], order[batch:]
        optimiser.zero_grad()
        logits = model.head.evaluate((weight, bias), model.embed(pixels[chosen]))
        loss = nn.functional.cross_entropy(logits, labels[chosen])
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(float(loss.detach()))
    model.head.state = (weight.detach(), bias.detach())
    if what == "all":
        model.network.requires_grad_(False)
        for parameter in film.parameters(model.network):
            parameter.requires_grad_(True)
    return losses
