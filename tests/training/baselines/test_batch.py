"""The baselines: a linear head, trained with FiLM or with every weight."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from filmtransfer.backbones import load_backbone
from filmtransfer.errors import InputError
from filmtransfer.heads import make_head
from filmtransfer.model import AdaptedModel, Body
from filmtransfer.training.baselines.batch import CosineSchedule, Rule, train_batches
from filmtransfer.training.baselines.hyperrule import HyperRule
from filmtransfer.training.config import TrainingConfig
from filmtransfer.training.finetune.activations import Activations
from filmtransfer.training.finetune.loop import History


def new(body: Body | None = None, head: str = "linear") -> tuple[AdaptedModel, torch.Tensor, torch.Tensor]:
    model = AdaptedModel(load_backbone("efficientnet_lite0", fold=False), make_head(head), 48, body=body)
    pixels = torch.randint(
        0, 256, (12, 3, 48, 48), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    return model, pixels, torch.arange(3).repeat(4)


def train(
    model: AdaptedModel, pixels: torch.Tensor, labels: torch.Tensor, rule: Rule, seed: int = 0, **chosen: int
) -> History:
    config = TrainingConfig().override(**chosen)
    return train_batches(model, Activations(model, pixels, 0), labels, rule, config, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("body", ["adapter", "all", "none"])
def test_it_trains_what_it_should_and_lowers_the_loss(body):
    model, pixels, labels = new(Body(body))
    before = {k: v.clone() for k, v in model.network.state_dict().items()}
    shared = {k: v.clone() for k, v in model.backbone.module.state_dict().items()}
    losses = train(model, pixels, labels, CosineSchedule(8, 1e-3, batch=8), seed=1).losses
    assert len(losses) == 8
    after = model.backbone.module.state_dict()
    assert all(torch.equal(v, shared[k]) for k, v in after.items()), "the shared backbone is never changed"
    assert sum(losses[-3:]) < sum(losses[:3])
    moved = {k for k, v in model.network.state_dict().items() if not torch.equal(v, before[k])}
    statistics = {k for k in before if "running" in k or "num_batches" in k}
    assert not moved & statistics, "norm statistics stay frozen"
    if body == "adapter":
        assert moved
        assert all(k.endswith(("gamma", "beta")) for k in moved)
    elif body == "all":
        assert any(k.endswith("conv_stem.weight") for k in moved)
    else:
        assert not moved


def test_one_seed_one_result():
    results = [train(*new(), CosineSchedule(3, 1e-3), seed=4).losses for _ in range(2)]
    assert results[0] == results[1]


@pytest.mark.slow
def test_micro_batches_change_nothing_but_memory():
    for rule in (
        CosineSchedule(3, 1e-3, batch=10),
        HyperRule(images=12, steps=5, batch=10, learning_rate=0.01, crop=32),
    ):
        whole, parts = (train(*new(), rule, seed=2, micro_batch=m).losses for m in (10, 3))
        assert whole == pytest.approx(parts, rel=1e-4)
        assert len(set(whole)) >= 3


def test_the_hyperrule_starts_from_a_head_of_zeros():
    model, pixels, labels = new(Body("all"))
    history = train(model, pixels, labels, HyperRule(images=12, steps=2, batch=8, crop=32), seed=0)
    assert history.losses[0] == pytest.approx(torch.log(torch.tensor(3.0)).item(), rel=1e-5)
    weight, _ = model.head.configured()
    assert bool((weight != 0).any()), "the head of the model is the one that was trained"
    assert weight.shape == (3, 1280)


def test_mixup_is_the_loss_of_a_mixture(monkeypatch):
    """λ·loss(y) + (1 − λ)·loss(y′) on λx + (1 − λ)x′, against the same by hand."""
    import filmtransfer.training.baselines.batch as batch

    model, pixels, labels = new(Body("none"))
    pixels = pixels[:, :, :32, :32].contiguous()
    partner = torch.tensor([5, 4, 3, 2, 1, 0, 11, 10, 9, 8, 7, 6])
    monkeypatch.setattr(batch, "_mixture", lambda count, alpha, generator: (0.7, partner[:count]))
    rule = HyperRule(images=30_000, steps=1, batch=12, learning_rate=1.0)
    assert rule.mixup == 0.1
    monkeypatch.setattr(HyperRule, "augment", lambda self, squares, generator: squares)
    order = torch.arange(12)
    monkeypatch.setattr(batch, "permutation", lambda count, generator: order)
    weight, bias = nn.Parameter(torch.randn(3, 1280) * 0.01), nn.Parameter(torch.zeros(3))
    monkeypatch.setattr(batch, "_initial_head", lambda *a: (weight, bias))
    mixed = 0.7 * pixels + 0.3 * pixels[partner]
    logits = (model.embed(mixed) @ weight.mT + bias).detach()
    by_hand = 0.7 * nn.functional.cross_entropy(logits, labels) + 0.3 * nn.functional.cross_entropy(
        logits, labels[partner]
    )
    assert train(model, pixels, labels, rule).losses[0] == pytest.approx(float(by_hand), rel=1e-4)


def test_only_the_linear_head_is_trained_by_batches():
    with pytest.raises(InputError, match="linear"):
        train(*new(head="lda"), CosineSchedule(1, 1.0))
