"""The paper's tables from result rows, with the published numbers.

Each function returns one table per backbone among the rows, so that no table mixes two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from ..errors import check_choice
from . import published_lookup
from .averages import (
    DatasetShots,
    Runs,
    accuracies,
    by_backbone,
    by_method,
    differences,
    filter_runs,
    mean_result,
)
from .datasets import GROUPS
from .federated_tables import federated, federated_algorithms, federated_methods
from .methods import SPLITS
from .published import Published
from .result_table import EMPTY_CELL, Cell, Count, ResultTable
from .rows import Row, RunSettings

Column = Mapping[DatasetShots, Cell | Count]
MEANS = [DatasetShots(group) for group in GROUPS]


def few_shot(rows: Sequence[Row], title: str = "Few-shot accuracy") -> list[ResultTable]:
    """Accuracy by dataset and shots for each method; then relative model update size (RMUS) and bytes of the update."""
    tables = []
    for backbone, own in by_backbone(rows).items():
        published = partial(published_lookup.published_number, table="few_shot_results")
        sizes: dict[str, Column] = {}
        for method, runs in by_method(own, _method).items():
            sizes[f"{method} RMUS"] = _counts(runs, "rmus", 4, partial(published, metric="rmus"))
            sizes[f"{method} bytes"] = _counts(runs, "bytes", 0)
        tables.append(_table(title, backbone, _by_method(own, published)))
        tables.append(_table("Size of the update: relative to BiT's (RMUS), and in bytes", backbone, sizes))
    return tables


def vtab(rows: Sequence[Row], title: str = "VTAB-1k accuracy") -> list[ResultTable]:
    """Accuracy on the 19 datasets and their means for each method."""
    return _accuracy_tables(rows, title, "vtab_results", [DatasetShots(name) for name in GROUPS["all"]])


def splits(rows: Sequence[Row], title: str = "Accuracy by episode split") -> list[ResultTable]:
    """Accuracy with No Split, Split, Use All, and our Resplit, for each head."""
    tables = []
    for backbone, own in by_backbone(rows).items():
        columns = {
            f"{method} {title}": accuracies(
                filter_runs(runs, partial(_has_split, split)), published_lookup.published_split
            )
            for method, runs in by_method(own, _method).items()
            for split, title in SPLITS.items()
        }
        tables.append(_table(title, backbone, columns))
    return tables


def bodies(rows: Sequence[Row], title: str = "Accuracy by trained parameters") -> list[ResultTable]:
    """Accuracy for {LDA, linear} × {None, FiLM, All}."""
    return _accuracy_tables(rows, title, "vtab_body_ablations")


def released(
    rows: Sequence[Row], title: str = "Accuracy, released against corrected behaviour"
) -> list[ResultTable]:
    """Accuracy of our corrected behaviour, of the released one, and their difference paired by seed."""
    tables = []
    for backbone, own in by_backbone(rows).items():
        columns: dict[str, Column] = {}
        for method, runs in by_method(own, _method_family).items():
            published = partial(_published_for_method, method)
            theirs, ours = filter_runs(runs, is_released), filter_runs(runs, lambda s: not is_released(s))
            columns[f"{method} corrected"] = accuracies(ours, published)
            columns[f"{method} released"] = accuracies(theirs, published)
            columns[f"{method} released − corrected"] = differences(ours, theirs)
        tables.append(_table(title, backbone, columns))
    return tables


def adapters(rows: Sequence[Row], title: str = "Adapters") -> list[ResultTable]:
    """One row per method: millions of parameters, the means of VTAB-1k, and each dataset."""
    tables = []
    for backbone, own in by_backbone(rows).items():
        columns = _by_method(own, published_lookup.published_competitor)
        keys = _ordered({DatasetShots.from_settings(row["settings"]) for row in own})
        means = MEANS if _has_vtab(keys) else []
        heads, cells = [], []
        for method, runs in by_method(own, _method).items():
            sizes = _sizes([row for same in runs.values() for row in same])
            line = [*sizes, *(columns[method].get(key) for key in (*means, *keys))]
            theirs = {cell.published.backbone for cell in line if cell and cell.published}
            heads.append((method, *(theirs or {EMPTY_CELL})))
            cells.append(line)
        names = ["parameters (M)", "without head (M)", *(" ".join(key).strip() for key in (*means, *keys))]
        notes = [
            "Parameters are means over the runs. The published count of FiT-LDA includes a head of 10 classes, "
            "those of its competitors include none.",
            *(_missing(columns) if means else []),
        ]
        tables.append(ResultTable(title, backbone, ("method", "published on"), heads, names, cells, notes))
    return tables


TABLES: dict[str, Callable[..., list[ResultTable]]] = {
    "few_shot": few_shot,
    "vtab": vtab,
    "splits": splits,
    "bodies": bodies,
    "released": released,
    "adapters": adapters,
    "federated": federated,
    "federated_algorithms": federated_algorithms,
    "federated_methods": federated_methods,
}


def build_tables(table: str, rows: Sequence[Row], title: str = "") -> list[ResultTable]:
    """Return the tables with that name, one per backbone among the rows."""
    check_choice("The table", table, TABLES)
    tables = TABLES[table](rows, title) if title else TABLES[table](rows)
    return [table for table in tables if table.column_heads]


def is_released(settings: RunSettings) -> bool:
    """Return whether a run follows the released code: by its backbone, its VTAB-1k split, or its method's name."""
    return (
        str(settings["backbone"]).endswith("_released")
        or settings.get("data_split") == "released"
        or str(settings["method"]).endswith(" released")
    )


def _method(row: Row) -> str:
    return str(row["settings"]["method"])


def _method_family(row: Row) -> str:
    """Return the method without the suffix of the released behaviour."""
    return _method(row).removesuffix(" released")


def _published_for_method(method: str, settings: RunSettings) -> Published | None:
    return published_lookup.published_result({**settings, "method": method})


def _has_split(split: str, settings: RunSettings) -> bool:
    return settings.get("split") == split


def _accuracy_tables(
    rows: Sequence[Row], title: str, table: str, datasets: Sequence[DatasetShots] = ()
) -> list[ResultTable]:
    """Return the accuracy by method, next to that of the paper's ``table``."""
    published = partial(published_lookup.published_number, table=table)
    return [
        _table(title, backbone, _by_method(own, published), datasets)
        for backbone, own in by_backbone(rows).items()
    ]


def _by_method(rows: Sequence[Row], published: published_lookup.PublishedLookup) -> dict[str, Column]:
    return {method: accuracies(runs, published) for method, runs in by_method(rows, _method).items()}


def _counts(
    runs: Runs, name: str, digits: int, published: published_lookup.PublishedLookup = lambda _: None
) -> dict[DatasetShots, Count]:
    means = {key: mean_result(same, name) for key, same in runs.items()}
    return {
        key: Count(value, digits, published(runs[key][0]["settings"]))
        for key, value in means.items()
        if value is not None
    }


def _sizes(rows: Sequence[Row]) -> list[Count | None]:
    """Return the parameters with and without the head, each with the published count of that kind."""
    published = published_lookup.published_competitor(
        {**rows[0]["settings"], "dataset": "all"}, "parameters_m"
    )
    has_head = published is not None and published.method.startswith("FiT")
    sizes: list[Count | None] = []
    for name, same_kind in (("numbers", has_head), ("body", not has_head)):
        value = mean_result(rows, name)
        sizes.append(None if value is None else Count(value / 1e6, 2, published if same_kind else None))
    return sizes


def _table(
    title: str, backbone: str, columns: Mapping[str, Column], datasets: Sequence[DatasetShots] = ()
) -> ResultTable:
    """Build a table of the columns that are not empty; below VTAB-1k, add its means and a note on missing datasets."""
    columns = {head: column for head, column in columns.items() if column}
    keys = list(datasets) or _ordered({key for column in columns.values() for key in column} - {*MEANS})
    has_vtab = _has_vtab(keys)
    if has_vtab:
        keys += MEANS
    shots = any(key.shots for key in keys)
    return ResultTable(
        title,
        backbone,
        ("dataset", "shots") if shots else ("dataset",),
        [tuple(key) if shots else (key.dataset,) for key in keys],
        list(columns),
        [[column.get(key) for column in columns.values()] for key in keys],
        _missing(columns) if has_vtab else (),
    )


def _has_vtab(keys: Iterable[DatasetShots]) -> bool:
    return any(not key.shots for key in keys)


def _missing(columns: Mapping[str, Column]) -> list[str]:
    """Return notes on means that are not shown; columns that lack the same datasets share a note."""
    lacking: dict[tuple[str, ...], list[str]] = {}
    for head, column in columns.items():
        lacking.setdefault(tuple(n for n in GROUPS["all"] if DatasetShots(n) not in column), []).append(head)
    return [
        f"No mean over a group with missing datasets; {', '.join(heads)}: missing {', '.join(names)}."
        for names, heads in lacking.items()
        if names
    ]


def _ordered(keys: Iterable[DatasetShots]) -> list[DatasetShots]:
    """Sort datasets in the paper's order, then by name; shots in ascending order, "all" last."""
    order = {name: i for i, name in enumerate(("cifar10", *GROUPS["all"]))}

    def sort_key(key: DatasetShots) -> tuple[int, str, float, str]:
        count = float(key.shots) if key.shots.isdigit() else math.inf
        return order.get(key.dataset, len(order)), key.dataset, count, key.shots

    return sorted(keys, key=sort_key)
