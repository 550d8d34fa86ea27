"""Federated runs in a benchmark: which run is which, their tables beside the paper's, their figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from filmtransfer.bench import federations, plotting
from filmtransfer.bench.figures import draw_figure
from filmtransfer.bench.html_page import render_page
from filmtransfer.bench.published import lookup
from filmtransfer.bench.recipe import KEYS, Run, load_recipe, parse_recipe, recipe_names
from filmtransfer.bench.report import write_report
from filmtransfer.bench.result_table import Cell, Count, ResultTable, to_csv, to_latex, to_markdown
from filmtransfer.bench.results import read_results
from filmtransfer.bench.run import compute_result
from filmtransfer.bench.sweep import SweepResult, collect_rows
from filmtransfer.bench.tables import build_tables
from filmtransfer.errors import InputError, UsageError
from filmtransfer.federated import plan as plans
from filmtransfer.federated.plan import Plan, named_plan
from tests.bench.test_figures import seen
from tests.bench.test_html_page import Reader

FILM = 11_648  # of BiT-M-R50x1
BIT = 23_500_352 + 100 * 2049  # with the linear head of 100 classes
BYTES = {"none": 4, "float16": 2, "int8": 1}


def row(
    accuracy: float = 0.6,
    bound: str = "federated",
    clients: int = 50,
    shots: int = 5,
    seed: int = 0,
    **more: Any,
) -> dict[str, Any]:
    """A line of a results file, made up; ``result`` adds to its results, all else to its settings."""
    extra = more.pop("result", {})
    settings = {
        "dataset": "cifar100", "protocol": "federated", "clients": clients, "ways": 10, "shots": shots,
        "bound": bound, "method": "FiT-ProtoNets", "seed": seed, "backbone": "bit_m_r50x1", "preset": "cifar100",
        "bound_steps": 400, **more,
    }  # fmt: skip
    personal = min(1.0, accuracy + 0.2)
    result: dict[str, Any] = {
        "accuracy": accuracy, "personalized": personal, "updateable": FILM, "seconds": 60.0,
        "clients_accuracy": np.linspace(personal - 0.1, personal + 0.1, clients).tolist(),
    }  # fmt: skip
    if settings["method"] == "BiT":
        settings |= {"preset": "bit", "head": "linear", "train": "all"}
        result |= {"updateable": BIT, "personalized": None, "clients_accuracy": []}
    if bound == "federated":
        size, rounds = result["updateable"], Plan.from_settings(settings).rounds
        width = BYTES[settings.get("compression", "none")]
        result |= {
            "parameters_per_round": 10 * size, "parameters": 10 * size * rounds, "bytes_up": 5 * size * rounds * width,
            "bytes_down": 5 * size * rounds * width, "curve": [
                {
                    "round": r, "accuracy": accuracy * (0.5 + 0.5 * r / rounds), "parameters": 10 * size * r,
                    "bytes": 10 * size * r * width,
                    "personalized": None if result["personalized"] is None else personal * (0.6 + 0.4 * r / rounds),
                }
                for r in range(0, rounds + 1, 10)
            ],
        }  # fmt: skip
    return {"version": 1, "key": "0", "settings": settings, "result": result | extra}


def whole(**more: Any) -> list[dict[str, Any]]:
    """Two sizes, three shots, both bounds and the federation, two seeds."""
    base = {"lower": 0.5, "federated": 0.6, "upper": 0.65}
    return [
        row(base[bound] + shots / 100 + seed / 100, bound, clients, shots, seed, **more)
        for bound in base
        for clients in (10, 50)
        for shots in (2, 5, 10)
        for seed in (0, 1)
    ]


def cell_at(table: ResultTable, line: tuple[str, ...], column: str) -> Cell | Count | None:
    lines = [tuple(head) for head in table.row_heads]
    return table.cells[lines.index(line)][list(table.column_heads).index(column)]


# Which run is which.


def test_keys_of_other_runs_are_those_of_yesterday():
    """The results in the repository are found by them."""
    results = Path(__file__).parents[2] / "benchmarks" / "results"
    for name in ("few_shot_small", "splits_small"):
        file = results / name / "results.jsonl"
        rows = read_results(file).rows
        made = collect_rows(load_recipe(name).runs(), read_results(file))
        assert len(made.rows) == len(rows) > 30
        for key, line in rows.items():
            assert Run(line["settings"]).key == key


def settings(**more: Any) -> dict[str, Any]:
    return {**row()["settings"], **more}


def key(**more: Any) -> str:
    return Run(settings(**more)).key


def test_a_run_is_known_by_its_plan_however_it_is_said():
    said = named_plan("cifar100").to_dict() | {"backbone": "bit_m_r50x1"}
    assert key() == key(**said) == key(preset="small", **said)
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
        ({}, {"bound_steps": 9}),  # a federation has no bound
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
        ({"bound": "upper"}, {"bound_steps_upper": 400}),  # as many as said for both
    ],
)
def test_what_a_run_does_not_use_does_not_make_it_another(what, same):
    assert key(**what) == key(**what, **same)


def test_steps_of_bounds():
    assert key(bound="lower", bound_steps=9) != key(bound="lower")
    assert key(bound="upper", bound_steps=9) != key(bound="upper")
    assert key(bound="upper", bound_steps_upper=9) != key(bound="upper")
    bare = {k: v for k, v in settings(bound="lower").items() if k != "bound_steps"}
    assert Run(bare).key != Run({**bare, "steps": 11}).key, "then those of a round stand in"
    assert key(algorithm="fedprox") != key(algorithm="fedprox", mu=9.0)


def test_a_field_that_a_plan_gets_later_leaves_old_keys_alone(monkeypatch):
    """As if min_clients were new, and 2 what everybody had before."""
    before = {k: v for k, v in Run(settings()).identity().items() if k != "min_clients"}
    monkeypatch.setitem(federations.LATER, "min_clients", 2)
    assert Run(settings()).identity() == before
    assert Run(settings(min_clients=3)).identity()["min_clients"] == 3


def test_a_run_in_words():
    assert str(Run(settings())) == "cifar100 50 clients 5 shots FiT-ProtoNets fedavg seed 0"
    assert str(Run(settings(bound="lower"))) == "cifar100 50 clients 5 shots FiT-ProtoNets lower bound seed 0"
    more = settings(algorithm="fedprox", compression="int8")
    assert str(Run(more)) == "cifar100 50 clients 5 shots FiT-ProtoNets fedprox int8 seed 0"


def test_every_field_of_a_plan_may_be_said():
    assert Plan.names() <= KEYS
    assert {"clients", "ways", "bound", "bound_steps", "bound_steps_upper"} <= KEYS


# Recipes.

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
            assert (one.settings["ways"], federations.bound_steps({**one.settings, "bound": "lower"})) == (
                35,
                400,
            )
            assert federations.bound_steps({**one.settings, "bound": "upper"}) == 3000
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
        assert one.settings.get("preset", "small") in plans.PRESETS
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
    ("old", "new", "says"),
    [
        ("clients = 10", "", "clients of a federated run cannot be None"),
        ("shots = 2", 'shots = "all"', "shots of a federated run cannot be 'all'"),
        ("ways = 5", "ways = 0", "ways of a federated run cannot be 0"),
        ("ways = 5", 'ways = 5\nbound = "middle"', "bound cannot be 'middle'"),
        ("ways = 5", 'ways = 5\nadapter = "lora"', "adapter says nothing to a federated run"),
        ("ways = 5", "ways = 5\ncurve = [0]", "curve says nothing to a federated run"),
        ("ways = 5", 'ways = 5\nalgorithm = "fedsgd"', "algorithm cannot be 'fedsgd'"),
        ("ways = 5", 'ways = 5\npreset = "fast"', "preset cannot be 'fast'.* small"),
        ("ways = 5", "ways = 5\nprivacy = {clap = 1.0}", "privacy cannot be 'clap'.*clip"),
        ('protocol = "federated"', "", "clients is a setting of federated runs"),
    ],
)
def test_a_mistake_is_said_before_anything_is_run(old, new, says):
    assert len(parse_recipe(OWN, "own.toml").runs()) == 1
    with pytest.raises(UsageError, match=says):
        parse_recipe(OWN.replace(old, new), "own.toml").runs()


def test_a_federated_run_is_handed_on(monkeypatch, tmp_path):
    from filmtransfer.bench import federated_run

    monkeypatch.setattr(
        federated_run, "run", lambda settings, root: {"accuracy": 0.5, "root": root, **settings}
    )
    assert compute_result(settings(), tmp_path) == {"accuracy": 0.5, "root": tmp_path, **settings()}


# Tables.


def test_clients_by_shots_between_the_bounds_beside_the_paper():
    table, cost = build_tables("federated", whole(), "Mine")
    assert (table.title, list(table.row_names)) == ("Mine", ["clients", "shots"])
    assert [tuple(head) for head in table.row_heads] == [
        (c, s) for c in ("10", "50") for s in ("2", "5", "10")
    ]
    assert list(table.column_heads) == [
        f"{setting} {what}" for setting in ("global", "personalized") for what in ("lower", "FL", "upper")
    ]
    assert str(cell_at(table, ("50", "5"), "global FL")) == "65.5 ± 1.0 (73.8 ± 0.7, −8.3 ✗)"
    printed = {
        ("10", "2", "global lower"): "42.6", ("10", "2", "personalized upper"): "81.7",
        ("50", "10", "global upper"): "79.2", ("50", "10", "personalized FL"): "93.4",
    }  # fmt: skip
    for (clients, shots, column), value in printed.items():
        assert cell_at(table, (clients, shots), column).published.printed == value
    assert all(cell.seeds == 2 for line in table.cells for cell in line)
    assert "Backbone, ours and published: BiT-M-R50x1." in table.caption
    assert any("60 rounds, 5 clients a round, 10 steps a client, 400 steps" in note for note in table.notes)
    assert not any(note.startswith("The paper") for note in table.notes), "as there"
    assert "global FL above its lower bound: 6 of 6." in table.notes
    assert "nan" not in to_markdown(table) + to_csv(table) + to_latex(table)
    assert cost.title == "What was sent"


def test_where_a_federation_is_below_its_lower_bound_is_said():
    rows = [row(0.5, "lower"), row(0.4), row(0.5, "lower", clients=10), row(0.6, clients=10)]
    table, _ = build_tables("federated", rows)
    assert "global FL above its lower bound: 1 of 2 (not: 50 clients, 5 shots)." in table.notes


def test_quickdraw_of_another_size_says_so():
    more = {"dataset": "quickdraw", "backbone": "efficientnet_lite0", "preset": "small"}
    table, _ = build_tables("federated", [row(0.3, **more), row(0.2, "lower", **more)])
    assert cell_at(table, ("50", "5"), "global FL").published.printed == "40.7"  # of 120 rounds
    assert cell_at(table, ("50", "5"), "personalized lower").published.printed == "48.8"
    assert "The paper: 35 classes a client, 120 rounds." in table.notes
    assert "backbones differ" in table.caption


def test_quickdraw_of_60_rounds_stands_beside_those():
    table, _ = build_tables("federated", [row(0.3, dataset="quickdraw", preset="quickdraw", rounds=60)])
    assert cell_at(table, ("50", "5"), "global FL").published.printed == "40.8"


def test_sets_that_the_paper_has_not():
    table, cost = build_tables("federated", whole(dataset="cifar10", backbone="efficientnet_lite0"))
    assert not any(cell.published for line in (*table.cells, *cost.cells) for cell in line if cell)
    assert "Backbone: efficientnet_lite0." in table.caption


def test_several_sets_and_methods_have_tables_of_their_own():
    rows = [
        row(0.5, dataset=d, method=m) for d in ("cifar10", "quickdraw") for m in ("FiT-ProtoNets", "FiT-LDA")
    ]
    *tables, cost = build_tables("federated", rows, "T")
    assert [t.title for t in tables] == [
        f"T: {d}, {m}" for d in ("cifar10", "quickdraw") for m in ("FiT-LDA", "FiT-ProtoNets")
    ]
    assert len(cost.row_heads) == 4


def test_compressed_runs_stand_beside_the_others():
    rows = [row(0.5 - i / 100, compression=c) for i, c in enumerate(("none", "float16", "int8"))]
    table, cost = build_tables("federated", rows)
    assert list(table.column_heads[:3]) == ["global float32", "global float16", "global int8"]
    assert [bool(cell.published) for cell in table.cells[0][:3]] == [True, False, False]
    assert [str(cell_at(cost, tuple(h), "bytes a number")) for h in cost.row_heads] == [
        "4.00",
        "2.00",
        "1.00",
    ]


def test_fedavg_against_fedprox():
    rows = [
        row(accuracy + seed / 10, clients=10, shots=2, seed=seed, algorithm=algorithm)
        for algorithm, accuracy in (("fedprox", 0.47), ("fedavg", 0.45))
        for seed in (0, 1, 2)
    ]
    table, _ = build_tables("federated_algorithms", rows)
    assert list(table.column_heads[:3]) == ["global FedAvg", "global FedProx", "global FedProx − FedAvg"]
    average, prox, difference = table.cells[0][:3]
    assert (average.published.printed, prox.published.printed) == ("49.3", "50.1")
    assert str(difference) == "2.0 ± 0.0", "seed by seed"
    assert [cell.published.printed for cell in table.cells[0][3:5]] == ["80.1", "80.5"]


def test_bit_against_fit():
    rows = [
        row(0.7, method=m, seed=s, clients=c)
        for m in ("FiT-ProtoNets", "BiT")
        for s in (0, 1)
        for c in (50, 100)
    ]
    table, cost = build_tables("federated_methods", rows)
    assert list(table.column_heads) == ["global BiT", "global FiT-ProtoNets", "personalized FiT-ProtoNets"]
    assert cell_at(table, ("50", "5"), "global BiT").published.printed == "75.6"
    assert cell_at(table, ("100", "5"), "global FiT-ProtoNets").published.printed == "76.5"
    heads = [tuple(head) for head in cost.row_heads]
    assert heads == [
        ("cifar100", "BiT", "FedAvg, float32", "50, 100"),
        ("cifar100", "FiT-ProtoNets", "FedAvg, float32", "50, 100"),
    ]
    said = [[str(cell) for cell in line] for line in cost.cells]
    assert said[0][:3] == ["23,705,252", "237 (237M)", "14,223 (14B)"]
    assert said[1] == ["11,648", "0.12 (0.1M)", "6.99 (7M)", "0.47", "14.0", "14.0", "4.00"]
    assert "237M" in to_csv(cost)


def test_some_of_the_classes_are_not_the_papers_task():
    table, _ = build_tables("federated", [row()])
    fewer, _ = build_tables("federated", [row(classes=50)])
    assert any(cell and cell.published for cell in table.cells[0])
    assert not any(cell and cell.published for cell in fewer.cells[0])


def test_many_methods_have_a_line_each():
    names = [f"FiT-ProtoNets {word}" for word in ("a", "b", "c", "d")]
    rows = [row(0.7, method=m, clients=c) for m in ("FiT-ProtoNets", "BiT", *names) for c in (50, 100)]
    table, _ = build_tables("federated_methods", rows)
    assert list(table.column_heads) == ["global", "personalized"]
    assert tuple(table.row_heads[0]) == ("50", "5", "BiT")
    assert len(table.row_heads) == 12
    assert table.cells[0][1] is None, "BiT has no personalized accuracy"
    assert "6 methods on cifar100" in table.notes[0]


def test_what_was_sent_overall_stands_beside_the_same_number_of_rounds_only():
    _, cost = build_tables("federated", [row(rounds=30)])
    assert [bool(cell.published) for cell in cost.cells[0][1:3]] == [True, False]


def test_runs_that_differ_are_not_averaged():
    with pytest.raises(InputError, match="differ in rounds"):
        build_tables("federated", [row(seed=0), row(seed=1, rounds=20)])


@pytest.mark.parametrize("name", ["federated", "federated_algorithms", "federated_methods"])
def test_tables_of_little(name):
    assert build_tables(name, []) == []
    for rows in ([row()], [row(result={"personalized": None})], [row(seed=1), row(0.4, "upper")]):
        for table in build_tables(name, rows):
            assert "nan" not in to_markdown(table)
    bare = row()
    bare["result"] = {"accuracy": 0.5}
    (table,) = build_tables(name, [bare])
    assert len(table.column_heads) == 1


def test_a_bound_alone_is_a_table_without_cost():
    (table,) = build_tables("federated", [row(0.5, "lower")])
    assert list(table.column_heads) == ["global lower", "personalized lower"]


def test_spot_values_of_the_paper():
    """The numbers that the recipes open with."""
    where = {"clients": 50, "shots": 10, "setting": "personalized"}
    found = lookup(
        "fed_learning_quickdraw", "quickdraw", "FiT-ProtoNets", rounds=120, algorithm="fedavg", **where
    )
    assert found is not None
    assert (found.printed, found.printed_interval) == ("71.1", "0.1")
    assert "71.1 ± 0.1" in load_recipe("federated_quickdraw").about


# Figures and page.

COMPRESSED = [row(0.5 + i / 50, seed=s, compression=k) for i, k in enumerate(BYTES) for s in (0, 1)]
PICTURES = {
    "papers": whole(),
    "two sets": whole() + whole(dataset="quickdraw"),
    "algorithms": whole() + [r for r in whole(algorithm="median") if r["settings"]["bound"] == "federated"],
    "compressions": [*COMPRESSED, row(0.4, "lower")],
    "BiT": [row(0.7 + s / 100, method=m, shots=s) for m in ("BiT", "FiT-ProtoNets") for s in (2, 5)],
    "with holes": [r for i, r in enumerate(whole()) if i % 3 and i != 5],
    "one": [row()],
}


@pytest.fixture
def drawn(monkeypatch) -> dict[str, Any]:
    """What the last figure says."""
    words: dict[str, Any] = {}
    save = plotting.figure_png

    def look(figure: Any) -> bytes:
        words["legend"] = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
        words["x"] = {axis.get_xlabel() for axis in figure.axes} - {""}
        words["y"] = [axis.get_ylabel() for axis in figure.axes if axis.get_ylabel()]
        words["panels"] = len(figure.axes)
        words["scale"] = figure.axes[0].get_xscale()
        words["horizontal"] = [
            line.get_ydata()[0]
            for line in figure.axes[0].lines
            if line.get_linestyle() != "-" and len(line.get_ydata())
        ]
        return save(figure)

    monkeypatch.setattr(plotting, "figure_png", look)
    return words


@pytest.mark.parametrize("figure", ["communication", "spread"])
@pytest.mark.parametrize("name", PICTURES)
def test_a_figure_is_a_picture(name, figure):
    seen(draw_figure(figure, PICTURES[name]))


def test_the_papers_figure(drawn):
    seen(draw_figure("communication", PICTURES["papers"]))
    assert drawn["legend"] == ["2 shots", "5 shots", "10 shots", "upper bound", "lower bound"]
    assert drawn["panels"] == 4
    assert drawn["x"] == {"millions of numbers sent"}
    assert drawn["y"] == ["global accuracy, %", "personalized accuracy, %"]
    assert np.allclose(drawn["horizontal"], [67.5, 52.5, 70.5, 55.5, 75.5, 60.5]), "the means of the bounds"


def test_ways_to_federate_are_compared_shot_by_shot(drawn):
    seen(draw_figure("communication", PICTURES["algorithms"]))
    assert drawn["legend"][:2] == ["FiT-ProtoNets, FedAvg", "FiT-ProtoNets, median"]
    assert drawn["panels"] == 2 * 3 * 2
    seen(draw_figure("communication", PICTURES["compressions"]))
    assert drawn["x"] == {"millions of bytes sent"}
    assert len(drawn["legend"]) == 4


def test_fedprox_lies_on_fedavg_and_is_left_to_the_table(drawn):
    proximal = [r for r in whole(algorithm="fedprox") if r["settings"]["bound"] == "federated"]
    seen(draw_figure("communication", whole() + proximal))
    assert drawn["legend"][:3] == ["2 shots", "5 shots", "10 shots"]
    seen(draw_figure("communication", proximal))
    assert drawn["legend"][:3] == ["2 shots", "5 shots", "10 shots"], "but alone it is drawn"


def test_bit_is_a_thousand_times_further_to_the_right(drawn):
    seen(draw_figure("communication", PICTURES["BiT"]))
    assert drawn["scale"] == "log"
    assert drawn["x"] == {"numbers sent"}
    assert drawn["y"] == ["2 shots\nglobal accuracy, %", "5 shots\nglobal accuracy, %"]


def test_clients_of_every_bound(drawn):
    seen(draw_figure("spread", PICTURES["papers"]))
    assert drawn["legend"] == ["lower bound", "federated", "upper bound"]
    seen(draw_figure("spread", [row(0.5, "lower")]))
    assert drawn["legend"] == ["lower bound"]


@pytest.mark.parametrize("figure", ["communication", "spread"])
def test_every_run_counts(figure):
    before = seen(draw_figure(figure, PICTURES["papers"]))
    changed = [*PICTURES["papers"]]
    place = changed[-1]["settings"]
    changed[-1] = row(0.1, **{k: place[k] for k in ("bound", "clients", "shots", "seed")})
    after = seen(draw_figure(figure, changed))
    assert before.shape != after.shape or (before != after).any()
    assert (seen(draw_figure(figure, PICTURES["papers"])) == before).all(), "and nothing else"


def test_no_picture_of_nothing():
    for figure in ("communication", "spread"):
        assert draw_figure(figure, []) is None
        assert (
            draw_figure(
                figure, [{"settings": {"dataset": "a", "method": "BiT"}, "result": {"curve": [[0, 0.1]]}}]
            )
            is None
        )
    assert draw_figure("communication", [row(0.5, "lower")]) is None
    assert draw_figure("communication", [row(result={"curve": []})]) is None
    assert draw_figure("spread", [row(result={"clients_accuracy": None})]) is None
    assert draw_figure("curves", [row()]) is None


def test_a_seed_that_was_stopped_early():
    short = row(0.5, seed=1)
    short["result"]["curve"] = short["result"]["curve"][:3]
    seen(draw_figure("communication", [row(), short]))
    seen(draw_figure("communication", [short, row()]))


def test_one_evaluation_at_the_end_is_enough():
    last = row()
    last["result"]["curve"] = last["result"]["curve"][-1:]
    seen(draw_figure("communication", [last]))


def test_the_page_of_a_federation(tmp_path):
    recipe = load_recipe("federated_cifar100")
    files = {f.name for f in write_report(recipe, SweepResult(whole()), tmp_path)}
    assert {"table.md", "table_2.md", "communication.png", "spread.png", "index.html"} <= files
    text = Reader((tmp_path / "index.html").read_text(encoding="utf-8")).text
    for words in (
        "36 of 108 runs",
        "What was sent",
        "Accuracy of single clients",
        "personalized FL",
        "paper 0.1M",
    ):
        assert words in text
    assert "0.6 hours" in text
    assert render_page(recipe, SweepResult([row(method="BiT")]), [], {}).count("None") == 0
    json.dumps(whole())  # a row is a line of the results file
