"""Tables from result rows: intervals over seeds, and the corresponding published numbers."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from filmtransfer.bench.averages import DatasetShots, accuracy, mean_over_datasets
from filmtransfer.bench.datasets import GROUPS
from filmtransfer.bench.published import Published, lookup
from filmtransfer.bench.result_table import Cell, Count, ResultTable, to_csv, to_latex, to_markdown
from filmtransfer.bench.tables import build_tables
from filmtransfer.errors import InputError, UsageError
from filmtransfer.training.assess.evaluation import mean_interval


def run(accuracy: float, method: str = "FiT-LDA", seed: int = 0, **settings: Any) -> dict[str, Any]:
    """A line of the results file."""
    settings = {"dataset": "cifar10", "backbone": "efficientnet_lite0", **settings}
    result = {"accuracy": accuracy, "numbers": 32140, "body": 11648, "bytes": 130123, "rmus": 0.0014}
    return {
        "version": 1,
        "key": "…",
        "settings": {"method": method, "seed": seed, **settings},
        "result": result,
    }


def printed(value: str, interval: str = "", backbone: str = "BiT-M-R50x1") -> Published:
    return Published(
        "few_shot_results", backbone, "cifar10", "shots=5", "FiT-LDA", "accuracy", value, interval
    )


def cell_at(table: ResultTable, row: tuple[str, ...], column: str) -> Cell | Count | None:
    places = [tuple(head) for head in table.row_heads]
    return table.cells[places.index(row)][list(table.column_heads).index(column)]


def whole_vtab(method: str = "FiT-LDA", **settings: Any) -> list[dict[str, Any]]:
    """Two seeds of all 19 datasets, the i-th at about i percent."""
    return [
        run((i + 0.5 * seed) / 100, method, seed, dataset=name, protocol="vtab", **settings)
        for i, name in enumerate(GROUPS["all"])
        for seed in (0, 1)
    ]


def test_an_unknown_table_and_one_without_rows():
    with pytest.raises(UsageError, match="few_shot"):
        build_tables("fewshot", [])
    assert build_tables("few_shot", []) == []


def test_seeds_become_a_mean_and_an_interval():
    table, sizes = build_tables(
        "few_shot", [run(a, seed=s, shots=5) for s, a in enumerate((0.80, 0.82, 0.84))]
    )
    cell = cell_at(table, ("cifar10", "5"), "FiT-LDA")
    mean, half = mean_interval([80.0, 82.0, 84.0])
    assert isinstance(cell, Cell)
    assert (cell.mean, cell.half_width, cell.seeds) == (pytest.approx(mean), pytest.approx(half), 3)
    assert cell.published == lookup("few_shot_results", "cifar10", "FiT-LDA", shots=5)
    assert str(cell) == "82.0 ± 2.3 (86.4 ± 4.2, −4.4 ✓)"
    assert str(cell_at(sizes, ("cifar10", "5"), "FiT-LDA RMUS")) == "0.0014 (0.0014)"
    assert str(cell_at(sizes, ("cifar10", "5"), "FiT-LDA bytes")) == "130,123"


def test_one_seed_has_no_interval_and_no_comparison():
    table, _ = build_tables("few_shot", [run(0.8, shots=5)])
    cell = cell_at(table, ("cifar10", "5"), "FiT-LDA")
    assert str(cell) == "80.0 (86.4 ± 4.2, −6.4)"
    assert "nan" not in to_markdown(table) + to_csv(table) + to_latex(table)


@pytest.mark.parametrize(
    ("mean", "half", "theirs", "inside"),
    [
        (80.0, 1.0, printed("82.0", "1.0"), True),  # |−2| = 1 + 1
        (80.0, 1.0, printed("82.1", "1.0"), False),
        (84.0, 1.0, printed("82.0", "1.0"), True),
        (80.0, 2.0, printed("82.0"), True),  # the paper prints no interval there
        (80.0, 1.9, printed("82.0"), False),
        (80.0, None, printed("80.0", "1.0"), None),
        (80.0, 1.0, None, None),
    ],
)
def test_within_intervals_uses_the_sum_of_both(mean, half, theirs, inside):
    cell = Cell(mean, half, 3, theirs)
    assert cell.within_intervals is inside
    assert ("✓" in str(cell), "✗" in str(cell)) == (inside is True, inside is False)


def test_runs_that_differ_are_not_averaged():
    rows = [run(0.8, seed=0, steps=30), run(0.9, seed=1, steps=400)]
    with pytest.raises(InputError, match="differ in steps \\(30 and 400\\)"):
        accuracy(rows)
    assert accuracy([run(0.8, device="cpu"), run(0.9, seed=1, device="cuda")]).seeds == 2


def test_a_run_recorded_twice_counts_once():
    assert accuracy([run(0.7), run(0.8), run(0.9, seed=1)]).seeds == 2


def test_backbones_do_not_mix():
    rows = [run(0.8, shots=5), run(0.9, shots=5, backbone="bit_m_r50x1")]
    small, _, large, _ = build_tables("few_shot", rows)
    assert (small.backbone, large.backbone) == ("efficientnet_lite0", "bit_m_r50x1")
    assert [cell_at(t, ("cifar10", "5"), "FiT-LDA").mean for t in (small, large)] == [80.0, 90.0]


@pytest.mark.parametrize("write", [to_markdown, to_latex])
def test_the_caption_names_both_backbones_if_they_differ(write):
    other, _ = build_tables("few_shot", [run(0.8, shots=5)])
    same_rows = [run(0.8, shots=5, backbone="bit_m_r50x1")]
    same, _ = build_tables("few_shot", same_rows)
    alone, _ = build_tables("few_shot", [run(0.8, shots=7)])
    text = write(other).replace("\\_", "_")
    assert "Ours: efficientnet_lite0; published: BiT-M-R50x1" in text
    assert "backbones differ" in text
    assert "Backbone, ours and published: BiT-M-R50x1." in write(same)
    assert "published" not in write(alone)
    assert "Percent, the mean of 1 seed." in write(alone)


def test_the_caption_says_how_many_seeds():
    rows = [run(0.8, shots=5), run(0.9, shots=5, seed=1), run(0.7, shots=1)]
    assert "the mean of 1 to 2 seeds." in build_tables("few_shot", rows, "Mine")[0].caption


def test_csv_names_the_backbone_of_each_number():
    rows = [run(a, seed=s, shots=5) for s, a in enumerate((0.80, 0.82, 0.84))]
    table, sizes = build_tables("few_shot", rows)
    lines, counts = (list(csv.DictReader(io.StringIO(to_csv(t)))) for t in (table, sizes))
    assert lines[0] == {
        "dataset": "cifar10",
        "shots": "5",
        "column": "FiT-LDA",
        "backbone": "efficientnet_lite0",
        "ours": "82.00",
        "interval": "2.26",
        "seeds": "3",
        "published": "86.4",
        "published_interval": "4.2",
        "published_backbone": "BiT-M-R50x1",
        "difference": "-4.40",
        "inside": "yes",
    }
    assert [line["ours"] for line in counts] == ["0.0014", "130123"]


def test_rows_and_columns_are_in_the_papers_order():
    rows = [
        run(0.5, method, dataset=name, shots=shots)
        for name in ("zebras", "oxford_pets", "cifar10")
        for shots in ("all", 10, 2)
        for method in ("FiT-LDA", "mine", "BiT")
    ]
    table, _ = build_tables("few_shot", rows)
    assert [head[0] for head in table.row_heads[::3]] == ["cifar10", "oxford_pets", "zebras"]
    assert [head[1] for head in table.row_heads[:3]] == ["2", "10", "all"]
    assert list(table.column_heads) == ["BiT", "FiT-LDA", "mine"]


def test_missing_shots_mean_all():
    assert DatasetShots.from_settings(run(0.5)["settings"]) == ("cifar10", "all")
    assert DatasetShots.from_settings(run(0.5, protocol="vtab")["settings"]) == ("cifar10", "")
    assert DatasetShots.from_settings(run(0.5, shots=None)["settings"]) == ("cifar10", "")


def test_complete_groups_have_means():
    (table,) = build_tables("vtab", whole_vtab())
    assert len(table.row_heads) == 19 + 4
    natural = cell_at(table, ("natural",), "FiT-LDA")
    every = cell_at(table, ("all",), "FiT-LDA")
    assert natural.mean == pytest.approx(3 + 0.25)
    assert every.mean == pytest.approx(9 + 0.25)
    each = cell_at(table, ("svhn",), "FiT-LDA").half_width
    assert natural.half_width == pytest.approx(each / 7**0.5)
    assert (natural.published.printed, every.published.printed) == ("78.7", "69.3")
    assert not table.notes


def test_a_group_with_a_missing_dataset_has_no_mean_but_a_note():
    rows = [row for row in whole_vtab() if row["settings"]["dataset"] != "kitti_distance"]
    (table,) = build_tables("vtab", rows)
    assert cell_at(table, ("kitti_distance",), "FiT-LDA") is None
    assert cell_at(table, ("structured",), "FiT-LDA") is None
    assert cell_at(table, ("all",), "FiT-LDA") is None
    assert cell_at(table, ("specialized",), "FiT-LDA").seeds == 2
    assert "| all | – |" in to_markdown(table)
    assert "FiT-LDA: missing kitti_distance." in to_markdown(table)
    assert "missing kitti\\_distance." in to_latex(table)


def test_one_seed_of_one_dataset_leaves_the_mean_without_interval():
    mean = mean_over_datasets([Cell(10.0, 1.0, 3), Cell(20.0, None, 1)])
    assert (mean.mean, mean.half_width, mean.seeds) == (15.0, None, 1)


def test_vtab_on_the_papers_larger_backbone():
    (table,) = build_tables(
        "vtab", whole_vtab(backbone="efficientnetv2_m") + whole_vtab("FiT-QDA", backbone="efficientnetv2_m")
    )
    assert cell_at(table, ("all",), "FiT-LDA").published.printed == "74.9"
    assert cell_at(table, ("all",), "FiT-QDA").published is None  # printed for the other backbone only
    assert "Backbone, ours and published: EfficientNetV2-M." in table.caption


def test_splits_are_columns():
    rows = [run(0.5, split=split, shots=5) for split in ("resplit", "use_all", "split", "no_split", "auto")]
    (table,) = build_tables("splits", rows)
    assert list(table.column_heads) == [f"FiT-LDA {w}" for w in ("No Split", "Split", "Use All", "Resplit")]
    theirs = [cell.published and cell.published.printed for cell in table.cells[0]]
    assert theirs == ["86.6", "86.4", "69.4", None]


def test_split_ablation_of_vtab():
    (table,) = build_tables("splits", whole_vtab(split="use_all"))
    assert cell_at(table, ("all",), "FiT-LDA Use All").published.printed == "64.1"


def test_bodies_of_vtab():
    rows = [row for m in ("Linear-All", "LDA-None") for row in whole_vtab(m)]
    (table,) = build_tables("bodies", rows)
    assert list(table.column_heads) == ["LDA-None", "Linear-All"]
    assert [cell.published.printed for cell in table.cells[-4]] == ["56.5", "68.3"]  # "all"


@pytest.mark.parametrize(
    "how",
    [
        {"backbone": "bit_m_r50x1_released"},
        {"data_split": "released", "backbone": "bit_m_r50x1"},
        {"method": "FiT-LDA released", "backbone": "bit_m_r50x1"},
    ],
)
def test_released_minus_corrected_is_paired_by_seed(how):
    """Both change by ten points with the seed; their difference does not."""
    ours = [run(a, seed=s, shots=5, backbone="bit_m_r50x1") for s, a in enumerate((0.6, 0.7, 0.8))]
    theirs = [run(a, seed=s, shots=5, **how) for s, a in enumerate((0.58, 0.68, 0.78))]
    (table,) = build_tables("released", ours + theirs)
    assert list(table.column_heads) == [
        "FiT-LDA corrected",
        "FiT-LDA released",
        "FiT-LDA released − corrected",
    ]
    corrected, released, difference = table.cells[0]
    assert (corrected.mean, released.mean) == (pytest.approx(70), pytest.approx(68))
    assert corrected.published.printed == released.published.printed == "86.4"
    assert str(difference) == "−2.0 ± 0.0"


def test_adapters_name_the_backbones_of_published_numbers():
    rows = [row for m in ("LoRA", "LoRA-LDA", "FiT-LDA", "BiT") for row in whole_vtab(m, backbone="vit_b16")]
    (table,) = build_tables("adapters", rows)
    heads = dict(table.row_heads)
    assert heads == {
        "BiT": "–",  # two backbones in the paper, neither of them ours
        "FiT-LDA": "EfficientNetV2-M",
        "LoRA": "ViT-Base-16",
        "LoRA-LDA": "–",
    }
    assert list(table.column_heads[:6]) == ["parameters (M)", "without head (M)", *GROUPS]
    assert len(table.column_heads) == 6 + 19
    lora = table.cells[list(heads).index("LoRA")]
    assert [str(cell) for cell in lora[:2]] == ["0.03", "0.01 (0.3)"]
    assert lora[2].published.printed == "72.3"
    fit = table.cells[list(heads).index("FiT-LDA")]
    assert [str(cell) for cell in fit[:2]] == ["0.03 (0.15)", "0.01"]
    assert "published: EfficientNetV2-M, ViT-Base-16" in table.caption


def test_adapters_on_few_shots_have_no_means():
    (table,) = build_tables(
        "adapters", [run(0.5, "LoRA", shots=5), run(0.6, "LoRA", dataset="svhn", shots="all")]
    )
    assert list(table.column_heads) == ["parameters (M)", "without head (M)", "cifar10 5", "svhn all"]
    assert table.cells[0][2].published is None


def test_runs_without_sizes_have_no_such_columns():
    """A run that records its curve records no update."""
    row = run(0.5, shots=5)
    row["result"] = {"accuracy": 0.5}
    (table,) = build_tables("few_shot", [row])
    assert list(table.column_heads) == ["FiT-LDA"]


def test_latex_is_escaped_and_ruled():
    table = ResultTable(
        "50% & more_", "b", ("dataset",), [("a_b",)], ["x|y"], [[Cell(-0.04, 1.0, 2, printed("1.5", "0.1"))]]
    )
    text = to_latex(table)
    assert r"\caption{50\% \& more\_." in text
    assert r"a\_b & 0.0 $\pm$ 1.0 (1.5 $\pm$ 0.1, $-$1.5 $\times$) \\" in text
    assert [text.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 1, 1]
    assert r"\begin{tabular}{lr}" in text
    assert "x\\|y" in to_markdown(table)
