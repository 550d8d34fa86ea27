"""The plan: invalid settings are refused, presets are those of the paper, and it survives the wire."""

from __future__ import annotations

from dataclasses import replace

import pytest

from filmtransfer.errors import UsageError
from filmtransfer.federated.plan import Plan, named_plan
from tests.federated.tiny import CONFIG, PLAN


@pytest.mark.parametrize(
    "change",
    [
        {"rounds": -1}, {"clients_per_round": -1}, {"algorithm": "fedsgd"}, {"compression": "zip"}, {"head": "qda"},
        {"mu": -1.0}, {"trim": 0.5}, {"decay": 0.0}, {"timeout": 0.0}, {"min_clients": 99}, {"train": "all"},
        {"secure": True, "algorithm": "krum"}, {"secure": True, "compression": "int8"}, {"nonsense": 1},
        {"privacy": {"epsilon": 1.0}, "algorithm": "median"}, {"privacy": {"nonsense": 1.0}}, {"steps": True},
    ],
)  # fmt: skip
def test_invalid_settings_are_refused(change):
    with pytest.raises(UsageError):
        Plan().override(**change)


def test_a_plan_survives_the_wire():
    plan = Plan().override(privacy={"epsilon": 3.0}, algorithm="fedprox", image_size=96)
    assert Plan.from_json(plan.to_json()) == plan
    assert plan.privacy is not None
    assert plan.privacy.epsilon == 3.0
    assert CONFIG.shots == 3


def test_the_presets_are_the_papers():
    cifar, quickdraw, bit = named_plan("cifar100"), named_plan("quickdraw"), named_plan("bit")
    training = cifar.training
    assert (cifar.rounds, cifar.clients_per_round) == (60, 5)
    assert (training.steps, training.learning_rate) == (10, 0.003)
    assert cifar.rate(60) == pytest.approx(0.003 * 0.09)
    assert (quickdraw.rounds, quickdraw.training.learning_rate, quickdraw.rate(120)) == (120, 0.006, 0.006)
    assert (bit.head, bit.training.train, bit.rate(60), bit.rounds) == ("linear", "all", 0.003, 60)
    released = named_plan("released").training
    assert (training.weight_decay, released.weight_decay, cifar.mu) == (0.0, 1e-3, 0.01)


def test_the_learning_rate_decays_by_rounds():
    plan = PLAN.override(learning_rate=1.0, decay=0.3, decay_every=20)
    assert [plan.rate(r) for r in (1, 20, 21, 41)] == pytest.approx([1, 1, 0.3, 0.09])
    assert replace(plan, decay_every=0).rate(100) == 1.0
