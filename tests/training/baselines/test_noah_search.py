"""NOAH's search on a task, with a small transformer."""

from __future__ import annotations

import torch

from filmtransfer.adapters import noah
from filmtransfer.backbones import assemble, build, record_for
from filmtransfer.training.baselines.noah_search import LIMIT, SIZES, find_subnet
from filmtransfer.training.config import TrainingConfig


def test_it_finds_a_subnet_within_the_limit_and_leaves_the_backbone_alone():
    entry = record_for("vit_tiny_patch16_224")
    backbone = assemble(entry, build(entry))
    before = {k: v.clone() for k, v in backbone.module.state_dict().items()}
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (10, 3, 32, 32), dtype=torch.uint8, generator=generator)
    config = TrainingConfig(adapter="noah", search_steps=2, learning_rate=1e-3, batch=4)
    found, again = (
        find_subnet(backbone, pixels, torch.arange(2).repeat(5), config, seed=0, population=4, generations=1)
        for _ in range(2)
    )
    assert found == again
    assert len(found) == 12
    assert {size for row in found for size in row} <= {0, *SIZES}
    space = noah.search_space(backbone.module, SIZES)
    assert LIMIT == 431_686
    assert 0 < space.parameter_count(tuple(tuple(row) for row in found)) <= LIMIT * 192 // 768 + 12 * 192
    assert all(torch.equal(v, before[k]) for k, v in backbone.module.state_dict().items())
