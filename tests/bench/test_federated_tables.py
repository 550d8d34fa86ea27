"""The tables of federated runs, with the published numbers."""

from __future__ import annotations

import pytest

from filmtransfer.bench.published import lookup
from filmtransfer.bench.recipe import load_recipe
from filmtransfer.bench.result_table import Cell, Count, ResultTable, to_csv, to_latex, to_markdown
from filmtransfer.bench.tables import build_tables
from filmtransfer.errors import InputError
from tests.bench.federated_rows import complete_rows, make_row


def find_cell(table: ResultTable, line: tuple[str, ...], column: str) -> Cell | Count | None:
    lines = [tuple(head) for head in table.row_heads]
    return table.cells[lines.index(line)][list(table.column_heads).index(column)]


def test_clients_by_shots_with_bounds_and_published_numbers():
    table, cost = build_tables("federated", complete_rows(), "Mine")
    assert (table.title, list(table.row_names)) == ("Mine", ["clients", "shots"])
    assert [tuple(head) for head in table.row_heads] == [
        (c, s) for c in ("10", "50") for s in ("2", "5", "10")
    ]
    assert list(table.column_heads) == [
        f"{setting} {what}" for setting in ("global", "personalized") for what in ("lower", "FL", "upper")
    ]
    assert str(find_cell(table, ("50", "5"), "global FL")) == "65.5 ± 1.0 (73.8 ± 0.7, −8.3 ✗)"
    printed = {
        ("10", "2", "global lower"): "42.6", ("10", "2", "personalized upper"): "81.7",
        ("50", "10", "global upper"): "79.2", ("50", "10", "personalized FL"): "93.4",
    }  # fmt: skip
    for (clients, shots, column), value in printed.items():
        assert find_cell(table, (clients, shots), column).published.printed == value
    assert all(cell.seeds == 2 for line in table.cells for cell in line)
    assert "Backbone, ours and published: BiT-M-R50x1." in table.caption
    assert any(
        "60 rounds, 5 clients per round, 10 steps per client, 400 steps" in note for note in table.notes
    )
    assert not any(note.startswith("The paper") for note in table.notes), "as in the paper"
    assert "global FL above its lower bound: 6 of 6." in table.notes
    assert "nan" not in to_markdown(table) + to_csv(table) + to_latex(table)
    assert cost.title == "Communication"


def test_a_federation_below_its_lower_bound_is_noted():
    rows = [
        make_row(0.5, "lower"),
        make_row(0.4),
        make_row(0.5, "lower", clients=10),
        make_row(0.6, clients=10),
    ]
    table, _ = build_tables("federated", rows)
    assert "global FL above its lower bound: 1 of 2 (not: 50 clients, 5 shots)." in table.notes


def test_sizes_that_differ_from_the_paper_are_noted():
    more = {"dataset": "quickdraw", "backbone": "efficientnet_lite0", "preset": "small"}
    table, _ = build_tables("federated", [make_row(0.3, **more), make_row(0.2, "lower", **more)])
    assert find_cell(table, ("50", "5"), "global FL").published.printed == "40.7"  # of 120 rounds
    assert find_cell(table, ("50", "5"), "personalized lower").published.printed == "48.8"
    assert "The paper: 35 classes per client, 120 rounds." in table.notes
    assert "backbones differ" in table.caption


def test_the_published_number_has_the_same_rounds():
    table, _ = build_tables("federated", [make_row(0.3, dataset="quickdraw", preset="quickdraw", rounds=60)])
    assert find_cell(table, ("50", "5"), "global FL").published.printed == "40.8"


def test_datasets_that_are_not_in_the_paper():
    table, cost = build_tables("federated", complete_rows(dataset="cifar10", backbone="efficientnet_lite0"))
    assert not any(cell.published for line in (*table.cells, *cost.cells) for cell in line if cell)
    assert "Backbone: efficientnet_lite0." in table.caption


def test_several_datasets_and_methods_have_separate_tables():
    rows = [
        make_row(0.5, dataset=d, method=m)
        for d in ("cifar10", "quickdraw")
        for m in ("FiT-ProtoNets", "FiT-LDA")
    ]
    *tables, cost = build_tables("federated", rows, "T")
    assert [t.title for t in tables] == [
        f"T: {d}, {m}" for d in ("cifar10", "quickdraw") for m in ("FiT-LDA", "FiT-ProtoNets")
    ]
    assert len(cost.row_heads) == 4


def test_compressions_are_columns():
    rows = [make_row(0.5 - i / 100, compression=c) for i, c in enumerate(("none", "float16", "int8"))]
    table, cost = build_tables("federated", rows)
    assert list(table.column_heads[:3]) == ["global float32", "global float16", "global int8"]
    assert [bool(cell.published) for cell in table.cells[0][:3]] == [True, False, False]
    assert [str(find_cell(cost, tuple(h), "bytes per parameter")) for h in cost.row_heads] == [
        "4.00",
        "2.00",
        "1.00",
    ]


def test_fedavg_against_fedprox():
    rows = [
        make_row(accuracy + seed / 10, clients=10, shots=2, seed=seed, algorithm=algorithm)
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
        make_row(0.7, method=m, seed=s, clients=c)
        for m in ("FiT-ProtoNets", "BiT")
        for s in (0, 1)
        for c in (50, 100)
    ]
    table, cost = build_tables("federated_methods", rows)
    assert list(table.column_heads) == ["global BiT", "global FiT-ProtoNets", "personalized FiT-ProtoNets"]
    assert find_cell(table, ("50", "5"), "global BiT").published.printed == "75.6"
    assert find_cell(table, ("100", "5"), "global FiT-ProtoNets").published.printed == "76.5"
    heads = [tuple(head) for head in cost.row_heads]
    assert heads == [
        ("cifar100", "BiT", "FedAvg, float32", "50, 100"),
        ("cifar100", "FiT-ProtoNets", "FedAvg, float32", "50, 100"),
    ]
    texts = [[str(cell) for cell in line] for line in cost.cells]
    assert texts[0][:3] == ["23,705,252", "237 (237M)", "14,223 (14B)"]
    assert texts[1] == ["11,648", "0.12 (0.1M)", "6.99 (7M)", "0.47", "14.0", "14.0", "4.00"]
    assert "237M" in to_csv(cost)


def test_some_of_the_classes_are_not_the_papers_task():
    table, _ = build_tables("federated", [make_row()])
    fewer, _ = build_tables("federated", [make_row(classes=50)])
    assert any(cell and cell.published for cell in table.cells[0])
    assert not any(cell and cell.published for cell in fewer.cells[0])


def test_many_methods_have_one_line_each():
    names = [f"FiT-ProtoNets {word}" for word in ("a", "b", "c", "d")]
    rows = [make_row(0.7, method=m, clients=c) for m in ("FiT-ProtoNets", "BiT", *names) for c in (50, 100)]
    table, _ = build_tables("federated_methods", rows)
    assert list(table.column_heads) == ["global", "personalized"]
    assert tuple(table.row_heads[0]) == ("50", "5", "BiT")
    assert len(table.row_heads) == 12
    assert table.cells[0][1] is None, "BiT has no personalized accuracy"
    assert "6 methods on cifar100" in table.notes[0]


def test_the_published_total_needs_the_same_number_of_rounds():
    _, cost = build_tables("federated", [make_row(rounds=30)])
    assert [bool(cell.published) for cell in cost.cells[0][1:3]] == [True, False]


def test_runs_that_differ_are_not_averaged():
    with pytest.raises(InputError, match="differ in rounds"):
        build_tables("federated", [make_row(seed=0), make_row(seed=1, rounds=20)])


@pytest.mark.parametrize("name", ["federated", "federated_algorithms", "federated_methods"])
def test_tables_of_few_rows(name):
    assert build_tables(name, []) == []
    for rows in (
        [make_row()],
        [make_row(result={"personalized": None})],
        [make_row(seed=1), make_row(0.4, "upper")],
    ):
        for table in build_tables(name, rows):
            assert "nan" not in to_markdown(table)
    minimal = make_row()
    minimal["result"] = {"accuracy": 0.5}
    (table,) = build_tables(name, [minimal])
    assert len(table.column_heads) == 1


def test_a_bound_alone_has_no_communication():
    (table,) = build_tables("federated", [make_row(0.5, "lower")])
    assert list(table.column_heads) == ["global lower", "personalized lower"]


def test_spot_values_of_the_paper():
    """The numbers in the comments of the recipes."""
    where = {"clients": 50, "shots": 10, "setting": "personalized"}
    published = lookup(
        "fed_learning_quickdraw", "quickdraw", "FiT-ProtoNets", rounds=120, algorithm="fedavg", **where
    )
    assert published is not None
    assert (published.printed, published.printed_interval) == ("71.1", "0.1")
    assert "71.1 ± 0.1" in load_recipe("federated_quickdraw").about
