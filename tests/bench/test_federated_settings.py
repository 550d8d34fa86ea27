"""The settings of federated runs in recipes, and the identity of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from filmtransfer.bench import federated_settings
from filmtransfer.bench.recipe import KEYS, Run, load_recipe, parse_recipe, recipe_names
from filmtransfer.bench.results import read_results
from filmtransfer.bench.run import compute_result
from filmtransfer.bench.sweep import collect_rows
from filmtransfer.errors import UsageError
from filmtransfer.federated.plan import PRESETS, Plan, named_plan
from tests.bench.federated_rows import make_row


def test_stored_keys_are_unchanged():
    """The results in the repository are identified by them."""
    results = Path(__file__).parents[2] / "benchmarks" / "results"
    for name in ("few_shot_small", "splits_small", "federated_cifar10_small", "federated_ways_small"):
        file = results / name / "results.jsonl"
        rows = read_results(file).rows
        collected = collect_rows(load_recipe(name).runs(), read_results(file))
        assert len(collected.rows) == len(rows) > 7
        for key, row in rows.items():
            assert Run(row["settings"]).key == key


def settings(**more: Any) -> dict[str, Any]:
    return {**make_row()["settings"], **more}


def key(**more: Any) -> str:
    return Run(settings(**more)).key


def test_the_key_depends_on_the_complete_plan():
    plan = named_plan("cifar100").to_dict() | {"backbone": "bit_m_r50x1"}
    assert key() == key(**plan) == key(preset="small", **plan)
    assert key() != key(preset="quickdraw")
    assert key(rounds=59) != key() == key(rounds=60)


@pytest.mark.parametrize(
    "other",
    [
        {"clients": 51}, {"ways": 9}, {"shots": 4}, {"seed": 1}, {"rounds": 61}, {"algorithm": "fedprox"},
        {"compression": "int8"}, {"bound": "lower"}, {"bound": "upper"}, {"learning_rate": 0.1}, {"image_size": 96},
        {"privacy": {"clip": 2.0}}, {"secure": True}, {"test_images": 3}, {"weights": "a.npz"}, {"evaluate_every": 5},
        {"partition": "dirichlet"},
    ],
)  # fmt: skip
def test_another_plan_or_task_is_another_run(other):
    assert key(**other) != key()


@pytest.mark.parametrize(
    ("what", "same"),
    [
        ({}, {"bound_steps": 9}),  # a federation has no steps of a bound
        ({}, {"bound_steps_upper": 9}),
        ({}, {"mu": 9.0}),  # of FedProx
        ({}, {"trim": 0.1}),
        ({}, {"malicious": 3}),
        ({}, {"timeout": 9.0}),
        ({}, {"micro_batch": 9}),
        ({"bound": "lower"}, {"rounds": 9}),
        ({"bound": "lower"}, {"algorithm": "fedprox"}),
        ({"bound": "lower"}, {"bound_steps_upper": 9}),
        ({"bound": "lower"}, {"steps": 9}),
        ({"bound": "upper"}, {"compression": "int8", "rounds": 7}),
        ({"bound": "upper"}, {"bound_steps_upper": 400}),  # as many as for both bounds
    ],
)
def test_unused_settings_do_not_change_the_key(what, same):
    assert key(**what) == key(**what, **same)


def test_steps_of_bounds():
    assert key(bound="lower", bound_steps=9) != key(bound="lower")
    assert key(bound="upper", bound_steps=9) != key(bound="upper")
    assert key(bound="upper", bound_steps_upper=9) != key(bound="upper")
    minimal = {k: v for k, v in settings(bound="lower").items() if k != "bound_steps"}
    assert Run(minimal).key != Run({**minimal, "steps": 11}).key, "then those of a round are used"
    assert key(algorithm="fedprox") != key(algorithm="fedprox", mu=9.0)


def test_a_setting_added_later_does_not_change_stored_keys(monkeypatch):
    """As if min_clients were new, and 2 its previous value."""
    before = {k: v for k, v in Run(settings()).identity().items() if k != "min_clients"}
    monkeypatch.setitem(federated_settings.ADDED_KEYS, "min_clients", 2)
    assert Run(settings()).identity() == before
    assert Run(settings(min_clients=3)).identity()["min_clients"] == 3


def test_the_description_of_a_run():
    assert str(Run(settings())) == "cifar100 50 clients 5 shots FiT-ProtoNets fedavg seed 0"
    assert str(Run(settings(bound="lower"))) == "cifar100 50 clients 5 shots FiT-ProtoNets lower bound seed 0"
    more = settings(algorithm="fedprox", compression="int8")
    assert str(Run(more)) == "cifar100 50 clients 5 shots FiT-ProtoNets fedprox int8 seed 0"


def test_every_setting_of_a_plan_is_a_recipe_key():
    assert Plan.names() <= KEYS
    assert {"clients", "ways", "bound", "bound_steps", "bound_steps_upper"} <= KEYS


COUNTS = {
    "federated_cifar100": 108,
    "federated_quickdraw": 81,
    "federated_algorithms": 72,
    "federated_bit": 54,
}


@pytest.mark.parametrize("name", COUNTS)
def test_the_papers_recipes(name):
    runs = load_recipe(name).runs()
    assert len(runs) == COUNTS[name]
    assert {run.settings["backbone"] for run in runs} == {"bit_m_r50x1"}
    assert {run.settings["seed"] for run in runs} == {0, 1, 2}
    for one in runs:
        plan = Plan.from_settings(one.settings)
        training = plan.training
        assert (plan.clients_per_round, training.steps, training.split) == (5, 10, "paper")
        assert (training.image_size, training.weight_decay) == (224, 0)
        if name == "federated_quickdraw":
            assert (plan.rounds, training.learning_rate, plan.decay_every) == (120, 0.006, 0)
            assert (
                one.settings["ways"],
                federated_settings.bound_steps({**one.settings, "bound": "lower"}),
            ) == (
                35,
                400,
            )
            assert federated_settings.bound_steps({**one.settings, "bound": "upper"}) == 3000
        else:
            assert (plan.rounds, training.learning_rate, one.settings["ways"]) == (60, 0.003, 10)
            bit = one.settings["method"] == "BiT"
            assert (plan.head, training.train) == (("linear", "all") if bit else ("protonets", "adapter"))
            assert (plan.decay_every, plan.decay) == ((0, 1.0) if bit else (20, 0.3))


def test_recipes_share_their_runs():
    first, algorithms, bit = (
        {run.key for run in load_recipe(name).runs()}
        for name in ("federated_cifar100", "federated_algorithms", "federated_bit")
    )
    assert len(first & algorithms) == 36
    assert len(first & bit) == 27


def test_bounds_are_run_once_for_all_algorithms():
    recipe = load_recipe("federated_algorithms")
    both = replace(recipe, sweep={**recipe.sweep, "bound": ["federated", "lower", "upper"]})
    assert len(both.runs()) == 72 + 2 * 36


@pytest.mark.parametrize(
    "name", [name for name in recipe_names() if load_recipe(name).table.startswith("federated")]
)
def test_every_federated_recipe_has_plans(name):
    for one in load_recipe(name).runs():
        assert one.settings["protocol"] == "federated"
        assert one.settings.get("preset", "small") in PRESETS
        Plan.from_settings(one.settings)


OWN = """
[experiment]
name = "own"
protocol = "federated"
table = "federated"

[sweep]
dataset = ["cifar10"]
method = ["FiT-LDA"]
seed = [0]

[settings]
clients = 10
ways = 5
shots = 2
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("clients = 10", "", "clients of a federated run cannot be None"),
        ("shots = 2", 'shots = "all"', "shots of a federated run cannot be 'all'"),
        ("ways = 5", "ways = 0", "ways of a federated run cannot be 0"),
        ("ways = 5", 'ways = 5\nbound = "middle"', "bound cannot be 'middle'"),
        ("ways = 5", 'ways = 5\nadapter = "lora"', "adapter is not a setting of federated runs"),
        ("ways = 5", "ways = 5\ncurve = [0]", "curve is not a setting of federated runs"),
        ("ways = 5", 'ways = 5\nalgorithm = "fedsgd"', "algorithm cannot be 'fedsgd'"),
        ("ways = 5", 'ways = 5\npreset = "fast"', "preset cannot be 'fast'.* small"),
        ("ways = 5", "ways = 5\nprivacy = {clap = 1.0}", "privacy cannot be 'clap'.*clip"),
        ('protocol = "federated"', "", "clients is a setting of federated runs"),
    ],
)
def test_invalid_settings_are_refused_before_a_run(old, new, message):
    assert len(parse_recipe(OWN, "own.toml").runs()) == 1
    with pytest.raises(UsageError, match=message):
        parse_recipe(OWN.replace(old, new), "own.toml").runs()


def test_a_federated_run_is_computed_by_federated_run(monkeypatch, tmp_path):
    from filmtransfer.bench import federated_run

    monkeypatch.setattr(
        federated_run, "run", lambda settings, root: {"accuracy": 0.5, "root": root, **settings}
    )
    assert compute_result(settings(), tmp_path) == {"accuracy": 0.5, "root": tmp_path, **settings()}
