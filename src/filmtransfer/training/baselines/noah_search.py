"""NOAH's search on a task: train the supernet with a random subnet at each step, then score subnets with it.

The score is the accuracy on a fifth of the images, which is held out of the training of the supernet. The chosen
subnet is then trained from scratch like any adapter.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...adapters import noah
from ...adapters.search import search
from ...adapters.search_space import SearchSpace, Subnet
from ...backbones import Backbone
from ...episodes import hold_out
from ...heads import make_head
from ...model import AdaptedModel, Body, Hardware
from ...seeding import make_generator
from ..callbacks import Callbacks, Progress
from ..config import TrainingConfig
from ..finetune.activations import Activations
from .batch import CosineSchedule, train_batches

SIZES = (1, 5, 10)  # of the published VTAB-1k subnets
VIT_B = SearchSpace(12, 768)
LIMIT = VIT_B.parameter_count(noah.PUBLISHED)  # 0.4 M in the paper; in proportion to the network elsewhere
HOLD_OUT = 0.2  # val200 of VTAB-1k's 1000


def find_subnet(
    backbone: Backbone,
    pixels: Tensor,
    labels: Tensor,
    config: TrainingConfig,
    *,
    seed: int,
    hardware: Hardware | None = None,
    population: int = 50,
    generations: int = 20,
) -> list[list[int]]:
    """Return [Adapter, LoRA, prompts] for every block."""
    body = Body.of("adapter", "noah", options={"supernet": max(SIZES)})
    model = AdaptedModel(
        backbone, make_head("linear"), pixels.shape[-1], body=body, seed=seed, hardware=hardware
    )
    space = noah.search_space(backbone.module, SIZES)
    generator = make_generator(seed, "subnets")
    fit, held_out = hold_out(labels, HOLD_OUT, make_generator(seed, "hold out"))
    if len(held_out) == 0:  # every class is too small
        held_out = fit

    def draw_subnet(progress: Progress | None = None) -> None:
        del progress
        noah.set_subnet(model.network, space.draw(generator))

    draw_subnet()
    rule = CosineSchedule(config.search_steps, config.learning_rate, config.batch, config.weight_decay)
    images = Activations(model, pixels[fit], 0)
    history = train_batches(
        model, images, labels[fit], rule, config, seed=seed, callbacks=Callbacks(on_step=draw_subnet)
    )
    if history.stopped == "interrupted":  # there is no subnet yet
        raise KeyboardInterrupt
    truth = torch.searchsorted(model.head.classes, labels[held_out])

    def score(subnet: Subnet) -> float:
        noah.set_subnet(model.network, subnet)
        return float((model.logits(pixels[held_out]).argmax(1).cpu() == truth).float().mean())

    limit = (
        LIMIT * space.parameter_count(((8, 8, 8),) * space.blocks) // VIT_B.parameter_count(((8, 8, 8),) * 12)
    )
    subnet = search(score, space, limit, generator, population=population, generations=generations)
    return [list(row) for row in subnet]
