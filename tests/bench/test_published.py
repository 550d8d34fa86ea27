"""published.csv against the paper: its means, repeated numbers and parameter counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
from scripts.transcribe_published import parse, vtab_body_ablations

from filmtransfer.backbones import backbone_facts
from filmtransfer.bench.datasets import GROUPS
from filmtransfer.bench.published import Published, lookup, published
from filmtransfer.errors import InputError, UsageError
from filmtransfer.heads import HEADS

THETA, PSI, D = 23_500_352, 11_648, 2048  # the paper's Model Parameters, BiT-M-R50x1
EPSILON = 1e-9

# Means that are off by more than the rounding of their own last digit: printed, and the mean of the rows
# as printed. The rounding of the rows (at most 0.05 more) can explain each of them.
LOOSE_MEANS = {
    ("vtab_results", "BiT-M-R50x1", "FiT-LDA", "", "specialized"): (81.5, 81.575),
    ("vtab_results", "EfficientNetV2-M", "FiT-LDA", "", "all"): (74.9, 74.847),
    ("vtab_ablation", "BiT-M-R50x1", "FiT-LDA", "split=no_split", "specialized"): (81.5, 81.575),
    ("vtab_body_ablations", "BiT-M-R50x1", "LDA-FiLM", "", "specialized"): (81.5, 81.575),
    ("vtab_body_ablations", "BiT-M-R50x1", "LDA-All", "", "specialized"): (85.3, 85.375),
    ("vtab_body_ablations", "BiT-M-R50x1", "Linear-None", "", "all"): (57.5, 57.558),
}


def rows(table: str, metric: str | None = None, **fields: str) -> list[Published]:
    return [
        p
        for p in published()
        if p.table == table
        and (metric is None or p.metric == metric)
        and all(getattr(p, name) == value for name, value in fields.items())
    ]


def require(p: Published | None) -> Published:
    assert p is not None
    return p


def printed_as(value: float, p: Published) -> bool:
    """Return whether this value, rounded to the printed digits, is the printed one."""
    return abs(value - p.value) <= p.rounding + EPSILON


def test_the_numbers_of_each_table():
    """Counted in the paper: rows × columns."""
    assert Counter(p.table for p in published()) == {
        "model_parameters": 4 + 1 + 4,  # caption, a shared 0, the Example column
        "vtab_rotated": 4 * (19 + 2),
        "vtab_sota": 9 * 6,
        "orbit_results": 6 * (4 + 2),
        "fed_learning_bit_vs_fit": 2 * (2 + 9),
        "few_shot_results": 20 * (1 + 5 * 2),
        "few_shot_ablation": 20 * 9,
        "vtab_results": 19 * (1 + 4 * 2 + 1) + 4 * 5,
        "vtab_ablation": 23 * 9,
        "vtab_body_ablations": 23 * 6,
        "fed_learning_cifar": 12 * 6,
        "fed_learning_algorithms": 12 * 4,
        "fed_learning_qd_bit_vs_fit": 2 * (2 + 9),
        "fed_learning_quickdraw": 9 * 6,
    }


def test_every_number_has_its_own_cell():
    places = Counter((p.table, p.backbone, p.dataset, p.setting, p.method, p.metric) for p in published())
    assert places.most_common(1)[0][1] == 1
    assert len(published()) == 1356


def test_numbers_are_as_printed():
    assert require(lookup("few_shot_results", "cifar10", "FiT-LDA", "rmus", shots=5)).printed == "0.0014"
    assert require(lookup("few_shot_results", "cifar100", "FiT-QDA", "rmus", shots="all")).printed == "8.860"
    assert require(lookup("vtab_results", "natural", "BiT")).printed == "77.0"
    assert (
        require(lookup("few_shot_ablation", "cifar10", "FiT-QDA", shots=1, split="no_split")).half_width
        == 2.2
    )
    assert (
        require(lookup("vtab_body_ablations", "clevr_count", "LDA-All")).printed_interval == "0"
    )  # "94.2±0."


def test_lookup_is_exact():
    assert lookup("few_shot_results", "cifar10", "FiT-LDA") is None  # without its shots
    assert lookup("few_shot_results", "cifar10", "FiT-LDA", backbone="efficientnet_lite0", shots=5) is None
    assert require(lookup("few_shot_results", "cifar10", "FiT-LDA", shots=5)).value == 86.4
    with pytest.raises(UsageError, match="few_shot_results"):
        lookup("few_shot", "cifar10", "FiT-LDA")


def columns(table: str) -> dict[tuple[str, str, str], dict[str, float]]:
    """Return accuracy by dataset, for each backbone, method and setting of a table."""
    by_column: dict[tuple[str, str, str], dict[str, float]] = {}
    for p in rows(table, "accuracy"):
        by_column.setdefault((p.backbone, p.method, p.setting), {})[p.dataset] = p.value
    return by_column


@pytest.mark.parametrize(
    ("table", "means"),
    [("vtab_rotated", 4), ("vtab_results", 20), ("vtab_ablation", 36), ("vtab_body_ablations", 24)],
)
def test_printed_group_means_equal_the_means_of_the_rows(table, means):
    checked, loose = 0, {}
    for column, accuracy in columns(table).items():
        for group in GROUPS.keys() & accuracy.keys():
            mean = sum(accuracy[name] for name in GROUPS[group]) / len(GROUPS[group])
            off = abs(mean - accuracy[group])
            assert off <= 0.05 + 0.05 + EPSILON, (column, group)
            if off > 0.05 + EPSILON:
                loose[(table, *column, group)] = (accuracy[group], round(mean, 3))
            checked += 1
    assert checked == means
    assert loose == {cell: numbers for cell, numbers in LOOSE_MEANS.items() if cell[0] == table}


def test_overall_accuracy_weights_groups_by_datasets():
    """In the comparison table only group means are printed: 7, 4 and 8 sets."""
    compared = columns("vtab_sota")
    assert len(compared) == 9
    for column, accuracy in compared.items():
        mean = sum(accuracy[g] * len(GROUPS[g]) for g in ("natural", "specialized", "structured")) / 19
        assert abs(mean - accuracy["all"]) <= 0.05 + 0.05 + EPSILON, column


def accuracies(chosen: Iterable[Published]) -> dict[str, tuple[str, str]]:
    return {p.dataset: (p.printed, p.printed_interval) for p in chosen}


@pytest.mark.parametrize("method", ["BiT", "FiT-QDA", "FiT-LDA", "FiT-ProtoNets"])
def test_vtab_tables_agree(method):
    long = accuracies(rows("vtab_results", "accuracy", method=method, backbone="BiT-M-R50x1"))
    short = accuracies(rows("vtab_rotated", "accuracy", method=method))
    assert len(long) == 23
    assert short.keys() == set(GROUPS["all"]) | {"all"}
    assert all(short[name][0] == long[name][0] for name in short)
    if method != "BiT":
        assert accuracies(rows("vtab_ablation", method=method, setting="split=no_split")) == long


@pytest.mark.parametrize(("method", "same"), [("FiT-LDA", "LDA-FiLM"), ("BiT", "Linear-All")])
def test_the_body_ablation_agrees_with_vtab(method, same):
    long = accuracies(rows("vtab_results", "accuracy", method=method, backbone="BiT-M-R50x1"))
    assert accuracies(rows("vtab_body_ablations", method=same)) == long


def test_the_comparison_agrees_with_vtab():
    best = accuracies(rows("vtab_results", "accuracy", backbone="EfficientNetV2-M"))
    compared = accuracies(rows("vtab_sota", "accuracy", backbone="EfficientNetV2-M"))
    assert compared == {group: best[group] for group in GROUPS}


def test_the_few_shot_ablation_agrees_with_the_results():
    """ "We use the Split option when reporting the few-shot results"."""
    checked = 0
    for p in rows("few_shot_ablation"):
        if p.settings["split"] == "split":
            same = require(lookup("few_shot_results", p.dataset, p.method, shots=p.settings["shots"]))
            assert (p.printed, p.printed_interval) == (same.printed, same.printed_interval)
            checked += 1
    assert checked == 60


@pytest.mark.parametrize(
    ("table", "repeated"), [("fed_learning_bit_vs_fit", 9), ("fed_learning_algorithms", 24)]
)
def test_federated_cifar100_tables_agree(table, repeated):
    same = 0
    for p in rows(table, "accuracy", method="FiT-ProtoNets"):
        other = lookup("fed_learning_cifar", p.dataset, p.method, **p.settings)
        if other is not None:
            assert (p.printed, p.printed_interval) == (other.printed, other.printed_interval)
            same += 1
    assert same == repeated


def updateable(method: str, classes: int, film: int = PSI, features: int = D) -> int:
    """The paper's count, by our own formulas; BiT's head is C·D (the paper counts no bias)."""
    if method == "BiT":
        return THETA + classes * features
    head = {"BiT-FiLM": "linear", "FiT-QDA": "qda", "FiT-LDA": "lda", "FiT-ProtoNets": "protonets"}[method]
    return film + HEADS[head].updateable(classes, features)


def test_the_parameter_table_equals_our_counts():
    facts = {p.metric: int(p.printed) for p in rows("model_parameters", method="")}
    assert facts == {"backbone_parameters": THETA, "film_parameters": PSI, "features": D, "classes": 10}
    examples = rows("model_parameters", "updateable_parameters")
    assert len(examples) == 4
    for p in examples:
        assert int(p.printed) == updateable(p.method, 10)


@pytest.mark.parametrize(("table", "count"), [("few_shot_results", 100), ("vtab_results", 76)])
def test_every_rmus_follows_from_our_counts(table, count):
    """To the last printed digit, without an exception."""
    relative = rows(table, "rmus")
    assert len(relative) == count
    for p in relative:
        classes = int(require(lookup(table, p.dataset, "", "classes", **p.settings)).printed)
        ratio = updateable(p.method, classes) / updateable("BiT", classes)
        assert printed_as(ratio, p), (p, ratio)


def test_millions_of_parameters_follow_from_our_counts():
    for p in rows("vtab_rotated", "parameters_m"):
        assert printed_as(updateable(p.method, 10) / 1e6, p)
    best = backbone_facts("efficientnetv2_m")
    ours = require(lookup("vtab_sota", "all", "FiT-LDA", "parameters_m", backbone="EfficientNetV2-M"))
    assert printed_as(updateable("FiT-LDA", 10, best.film_parameters, best.features) / 1e6, ours)
    for backbone, name in (("EfficientNetV2-M", "efficientnetv2_m"), ("ViT-Base-16", "vit_b16")):
        for p in rows("vtab_sota", "backbone_parameters_m", backbone=backbone):
            assert printed_as(backbone_facts(name).parameters / 1e6, p)


def test_orbit_averages_follow_from_one_number_of_classes():
    """Simple CNAPs' D(D+3)/2 · C tells the mean C over ORBIT's users; all other averages follow."""
    b0 = backbone_facts("efficientnet_b0")
    cnaps = require(
        lookup("orbit_results", "orbit", "Simple CNAPs", "parameters_m", backbone="EfficientNet-B0-MD")
    )
    classes = cnaps.value * 1e6 / (b0.features * (b0.features + 3) / 2)
    assert 9 < classes < 10
    expected = {
        ("FineTuner", "EfficientNet-B0"): (b0.features + 1) * classes,
        ("ProtoNets", "EfficientNet-B0-MD"): b0.features * classes,
        ("FiT-LDA", "EfficientNet-B0"): (b0.features + 1) * classes + b0.film_parameters,
        ("BiT", "BiT-M-R50x1"): (D + 1) * classes + THETA,
        ("FiT-LDA", "BiT-M-R50x1"): (D + 1) * classes + PSI,
    }
    for (method, backbone), count in expected.items():
        p = require(lookup("orbit_results", "orbit", method, "parameters_m", backbone=backbone))
        assert printed_as(count / 1e6, p), method
    shared = require(
        lookup("orbit_results", "orbit", "FiT-LDA", "shared_parameters_m", backbone="EfficientNet-B0")
    )
    assert printed_as(b0.parameters / 1e6, shared)


@pytest.mark.parametrize(
    ("table", "dataset", "classes"),
    [("fed_learning_bit_vs_fit", "cifar100", 100), ("fed_learning_qd_bit_vs_fit", "quickdraw", 345)],
)
def test_the_parameters_that_federated_learning_sends(table, dataset, classes):
    """5 clients a round, there and back, 60 rounds: ψ for FiT, every weight for BiT."""
    fit, bit = PSI * 5 * 2, updateable("BiT", classes) * 5 * 2
    common = {"rounds": 60, "setting": "global", "algorithm": "fedavg"}
    for method, metric, count in (
        ("FiT-ProtoNets", "per_round_parameters_m", fit / 1e6),
        ("FiT-ProtoNets", "overall_parameters_m", 60 * fit / 1e6),
        ("BiT", "per_round_parameters_m", bit / 1e6),
        ("BiT", "overall_parameters_b", 60 * bit / 1e9),
    ):
        assert printed_as(count, require(lookup(table, dataset, method, metric, **common))), metric


TINY = r"""
\begin{table}
  \caption{Tiny.}
    \begin{tabular}{lcccc}
    \toprule
          & \multicolumn{2}{c}{\textbf{LDA}} &       & \multicolumn{1}{c}{\textbf{Linear}} \\
\cmidrule{2-3}\cmidrule{5-5}    \textbf{Dataset} & \textbf{None} & \textbf{FiLM} &       & \textbf{All} \\
    \midrule
    CLEVR-count \citep{johnson2017clevr} & 38.1±0.1 & \textbf{94.2±0.} &       & 54.6±	7.1 \\
    \bottomrule
    \end{tabular}%
  \label{tab:vtab_body_ablations}%
\end{table}%
"""


def test_latex_tables_are_parsed_by_their_heads():
    read = vtab_body_ablations(parse(TINY)["vtab_body_ablations"])
    assert [(r.dataset, r.method, r.value, r.interval) for r in read] == [
        ("clevr_count", "LDA-None", "38.1", "0.1"),
        ("clevr_count", "LDA-FiLM", "94.2", "0"),
        ("clevr_count", "Linear-All", "54.6", "7.1"),
    ]


@pytest.mark.parametrize("damage", [("38.1±0.1 &", ""), ("38.1±0.1", "38.1?")])
def test_unknown_latex_is_an_error(damage):
    with pytest.raises(InputError):
        list(vtab_body_ablations(parse(TINY.replace(*damage))["vtab_body_ablations"]))
