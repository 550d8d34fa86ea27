"""The baselines: FiLM and a linear head, or every weight."""

from __future__ import annotations

import pytest
import torch

from filmtransfer.backbones import load_backbone
from filmtransfer.errors import UsageError
from filmtransfer.heads import make_head
from filmtransfer.model import AdaptedModel
from filmtransfer.training.batch import train_batches


def new() -> tuple[AdaptedModel, torch.Tensor, torch.Tensor]:
    model = AdaptedModel(load_backbone("efficientnet_lite0", fold=False), make_head("linear"), 48)
    pixels = torch.randint(
        0, 256, (12, 3, 48, 48), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    return model, pixels, torch.arange(3).repeat(4)


@pytest.mark.parametrize("what", ["film", "all"])
def test_it_moves_what_it_should_and_lowers_the_loss(what):
    model, pixels, labels = new()
    before = {k: v.clone() for k, v in model.network.state_dict().items()}
    shared = {k: v.clone() for k, v in model.backbone.module.state_dict().items()}
    losses = train_batches(
        model, pixels, labels, what=what, steps=8, learning_rate=1e-3, batch=8, seed=1
    ).losses
    assert len(losses) == 8
    after = model.backbone.module.state_dict()
    assert all(torch.equal(v, shared[k]) for k, v in after.items()), "the shared backbone is never changed"
    assert sum(losses[-3:]) < sum(losses[:3])
    moved = {k for k, v in model.network.state_dict().items() if not torch.equal(v, before[k])}
    statistics = {k for k in before if "running" in k or "num_batches" in k}
    assert not moved & statistics, "norm statistics stay frozen"
    if what == "film":
        assert all(k.endswith(("gamma", "beta")) for k in moved)
    else:
        assert any(k.endswith("conv_stem.weight") for k in moved)
    trainable = {n for n, p in model.network.named_parameters() if p.requires_grad}
    assert all(n.endswith(("gamma", "beta")) for n in trainable), "frozen again afterwards"


def test_one_seed_one_result():
    results = []
    for _ in range(2):
        model, pixels, labels = new()
        results.append(
            train_batches(model, pixels, labels, what="film", steps=3, learning_rate=1e-3, seed=4).losses
        )
    assert results[0] == results[1]


def test_unknown_part():
    with pytest.raises(UsageError, match="film, all"):
        train_batches(*new(), what="some", steps=1, learning_rate=1.0)
