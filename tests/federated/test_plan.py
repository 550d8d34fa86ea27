"""The plan: invalid settings are refused, presets are those of the paper, and it survives the wire."""

from __future__ import annotations

from dataclasses import replace

import pytest

from filmtransfer.errors import UsageError
from filmtransfer.federated.plan import COUNTS, NUMBERS, TRAINING, Plan, named_plan
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"assess": "False"}, "assess cannot be 'False'. It is true or false."),
        ({"assess": "no"}, "assess cannot be 'no'. It is true or false."),
        ({"secure": "False"}, "secure cannot be 'False'. It is true or false."),
        ({"secure": 0}, "secure cannot be 0. It is true or false."),
        ({"rounds": 2.5}, "rounds cannot be 2.5. It is a whole number of at least 0."),
        ({"mu": "x"}, "mu cannot be 'x'. It is a number of at least 0."),
        ({"trim": "x"}, "trim cannot be 'x'. It is a number of at least 0 and below 0.5."),
        ({"temperature": "x"}, "temperature cannot be 'x'. It is a number above 0."),
        ({"timeout": "x"}, "timeout cannot be 'x'. It is a number of seconds above 0."),
        ({"decay": "x"}, "decay cannot be 'x'. It is a number above 0 and at most 1."),
        ({"decay": True}, "decay cannot be True. It is a number above 0 and at most 1."),
        ({"mu": float("nan")}, "mu cannot be nan. It is a number of at least 0."),
        ({"seed": "abc"}, "seed cannot be 'abc'. It is a whole number."),
        ({"seed": 1.5}, "seed cannot be 1.5. It is a whole number."),
        ({"backbone": 5}, "backbone cannot be 5. It is the name of one; see 'fit backbones'."),
        ({"privacy": "x"}, "privacy cannot be 'x'. As in --set 'privacy={noise=2.0, clip=0.5}'."),
        ({"privacy": False}, "privacy cannot be False. As in --set 'privacy={noise=2.0, clip=0.5}'."),
        ({"privacy": {"epsilon": 0}}, "epsilon cannot be 0. It is a number above 0."),
        ({"privacy": {"delta": 2}}, "delta cannot be 2. It is a number above 0 and below 1."),
        ({"privacy": {"noise": "a"}}, "noise cannot be 'a'. It is a number above 0."),
        ({"privacy": {"clip": -1}}, "clip cannot be -1. It is a number above 0."),
    ],
)  # fmt: skip
def test_a_value_of_a_wrong_type_is_refused_with_what_is_allowed(change, message):
    with pytest.raises(UsageError) as caught:
        Plan().override(**change)
    assert str(caught.value) == message


def test_every_setting_of_a_plan_has_a_check():
    """A new one without a check would be accepted with any type."""
    checked = {
        *COUNTS,
        *NUMBERS,
        "secure",
        "assess",
        "algorithm",
        "compression",
        "head",
        "backbone",
        "privacy",
    }
    assert checked == Plan.names() - set(TRAINING)
