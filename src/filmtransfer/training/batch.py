"""Batch training of a linear head: the ordinary way, and the paper's baseline.

``what="film"`` moves FiLM and the head (BiT-FiLM), ``what="all"`` every weight (BiT). The head starts
from the logistic regression on the frozen features, so step 0 is the FineTuner baseline.
"""

from __future__ import annotations

import copy
from typing import Literal

import torch
from torch import Tensor, nn

from .. import film
from ..errors import choices
from ..model import AdaptedModel
from ..seeding import generator, permutation
from .cache import Activations
from .gradient import StepResult
from .loop import History, Watch, run_steps
from .profile import Profile


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
    watch: Watch | None = None,
    time_limit: float | None = None,
    cache_mb: float = 0,
    profile: Profile | None = None,
) -> History:
    """Adam with a cosine decay on shuffled batches. Norm statistics stay frozen."""
    if what not in ("film", "all"):
        raise choices("what", what, ("film", "all"))
    if what == "all":  # weights of its own: the backbone's are shared
        model.network = copy.deepcopy(model.network)
        model.network.requires_grad_(True)
    model.configure(pixels, labels)
    weight, bias = (nn.Parameter(t.clone()) for t in model.head.configured())
    body = list(model.network.parameters()) if what == "all" else film.parameters(model.network, model.sites)
    learned = [*body, weight, bias]
    optimiser = torch.optim.Adam(learned, lr=learning_rate)
    profile = profile or Profile()
    with profile.phase("activations below FiLM, once"):
        embed = Activations(model, pixels, cache_mb if what == "film" else 0)
    stream = generator(seed, "batches")
    order = torch.empty(0, dtype=torch.long)

    def backward() -> StepResult:
        nonlocal order
        while len(order) < min(batch, len(labels)):
            order = torch.cat([order, permutation(len(labels), stream)])
        chosen, order = order[:batch], order[batch:]
        with profile.step():
            logits = model.head.evaluate((weight, bias), embed(chosen))
            truth = labels[chosen].to(logits.device)
            loss = nn.functional.cross_entropy(logits, truth)
            profile.mark("forward")
            loss.backward()
            profile.mark("backward")
        right = (logits.detach().argmax(1) == truth).float().mean()
        return StepResult(float(loss.detach()), float(right), len(chosen))

    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, max(steps, 1))
    history = run_steps(
        backward,
        learned,
        optimiser,
        steps,
        watch=watch,
        time_limit=time_limit,
        schedule=schedule,
        mark=profile.mark,
    )
    model.head.state = (weight.detach(), bias.detach())
    film.learn(model.network, model.sites)
    return history
