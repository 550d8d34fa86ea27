"""The paper's tables from result rows, each number beside the published one.

Each function makes one table for each backbone among the rows, so that no table mixes two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ..errors import invalid_choice
from .averages import (
    DatasetShots,
    Row,
    Runs,
    accuracies,
    by_backbone,
    by_method,
    differences,
    mean_result,
    only,
)
from .federated import federated, federated_algorithms, federated_methods
from .methods import SPLITS
from .published import GROUPS, Published
from .published_lookup import (
    PublishedLookup,
    published_competitor,
    published_number,
    published_result,
    published_split,
)
from .result_table import EMPTY_CELL, Cell, Count, ResultTable

Column = Mapping[DatasetShots, Cell | Count]
MEANS = [DatasetShots(group) for group in GROUPS]


def few_shot(rows: Sequence[Row], title: str = "Few-shot accuracy") -> list[ResultTable]:
    """Data set × shots by method: accuracy; then relative model update size (RMUS) and bytes of the update file."""
    tables = []
    for backbone, own in by_backbone(rows).items():
        accuracy = _by_method(own, partial(published_number, table="few_shot_results"))
        sizes: dict[str, Column] = {}
        for method, runs in by_method(own, _method).items():
            sizes[f"{method} RMUS"] = _counts(
                runs, "rmus", 4, partial(published_number, table="few_shot_results", metric="rmus")
            )
            sizes[f"{method} bytes"] = _counts(runs, "bytes", 0)
        tables.append(_table(title, backbone, accuracy))
        tables.append(_table("Size of the update: relative to BiT's (RMUS), and in bytes", backbone, sizes))
    return tables


def vtab(rows: Sequence[Row], title: str = "VTAB-1k accuracy") -> list[ResultTable]:
    """The 19 sets and their means by method."""
    sets = [DatasetShots(name) for name in GROUPS["all"]]
    return [
        _table(title, backbone, _by_method(own, partial(published_number, table="vtab_results")), sets)
        for backbone, own in by_backbone(rows).items()
    ]


def splits(rows: Sequence[Row], title: str = "Accuracy by use of the data") -> list[ResultTable]:
    """No Split, Split, Use All, and our Resplit, for each head."""
    tables = []
    for backbone, own in by_backbone(rows).items():
        columns = {
            f"{method} {words}": accuracies(only(runs, partial(_splits, split)), published_split)
            for method, runs in by_method(own, _method).items()
            for split, words in SPLITS.items()
        }
        tables.append(_table(title, backbone, columns))
    return tables


def bodies(rows: Sequence[Row], title: str = "Accuracy by what is learned") -> list[ResultTable]:
    """{LDA, linear} × {None, FiLM, All}."""
    return [
        _table(title, backbone, _by_method(own, partial(published_number, table="vtab_body_ablations")))
        for backbone, own in by_backbone(rows).items()
    ]


def released(
    rows: Sequence[Row], title: str = "Accuracy, released against corrected behaviour"
) -> list[ResultTable]:
    """Our corrected behaviour, the released code's, and their difference seed by seed."""
    tables = []
    for backbone, own in by_backbone(rows).items():
        columns: dict[str, Column] = {}
        for method, runs in by_method(own, _corrected).items():
            published = partial(_beside_method, method)
            theirs, ours = only(runs, is_released), only(runs, lambda s: not is_released(s))
            columns[f"{method} corrected"] = accuracies(ours, published)
            columns[f"{method} released"] = accuracies(theirs, published)
            columns[f"{method} released − corrected"] = differences(ours, theirs)
        tables.append(_table(title, backbone, columns))
    return tables


def adapters(rows: Sequence[Row], title: str = "Adapters") -> list[ResultTable]:
    """A method a row: millions of numbers, the means of VTAB-1k, and each set that was run."""
    tables = []
    for backbone, own in by_backbone(rows).items():
        columns = _by_method(own, published_competitor)
        places = _ordered({DatasetShots.from_settings(row["settings"]) for row in own})
        means = MEANS if _has_vtab(places) else []
        heads, cells = [], []
        for method, runs in by_method(own, _method).items():
            sizes = _sizes([row for same in runs.values() for row in same])
            line = [*sizes, *(columns[method].get(place) for place in (*means, *places))]
            theirs = {cell.published.backbone for cell in line if cell and cell.published}
            heads.append((method, *(theirs or {EMPTY_CELL})))
            cells.append(line)
        names = ["numbers (M)", "without head (M)", *(" ".join(place).strip() for place in (*means, *places))]
        notes = [
            "Numbers are means over the runs. The published count of FiT-LDA has a head of 10 classes, "
            "those of its competitors have none.",
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
    """The tables of a name, one for each backbone among the rows."""
    if table not in TABLES:
        raise invalid_choice("The table", table, TABLES)
    found = TABLES[table](rows, title) if title else TABLES[table](rows)
    return [made for made in found if made.column_heads]


def is_released(settings: Mapping[str, Any]) -> bool:
    """Whether a run follows the released code: by its backbone, its VTAB-1k slices, or its method's name."""
    return (
        str(settings["backbone"]).endswith("_released")
        or settings.get("data_split") == "released"
        or str(settings["method"]).endswith(" released")
    )


def _method(row: Row) -> str:
    return str(row["settings"]["method"])


def _corrected(row: Row) -> str:
    """The method, whichever way it was run."""
    return _method(row).removesuffix(" released")


def _beside_method(method: str, settings: Mapping[str, Any]) -> Published | None:
    return published_result({**settings, "method": method})


def _splits(split: str, settings: Mapping[str, Any]) -> bool:
    return settings.get("split") == split


def _by_method(rows: Sequence[Row], published: PublishedLookup) -> dict[str, Column]:
    return {method: accuracies(runs, published) for method, runs in by_method(rows, _method).items()}


def _counts(
    runs: Runs, name: str, digits: int, published: PublishedLookup = lambda _: None
) -> dict[DatasetShots, Count]:
    found = {place: mean_result(same, name) for place, same in runs.items()}
    return {
        place: Count(value, digits, published(runs[place][0]["settings"]))
        for place, value in found.items()
        if value is not None
    }


def _sizes(rows: Sequence[Row]) -> list[Count | None]:
    """With and without the head, each beside the published count of that kind."""
    published = published_competitor({**rows[0]["settings"], "dataset": "all"}, "parameters_m")
    has_head = published is not None and published.method.startswith("FiT")
    sizes: list[Count | None] = []
    for name, same_kind in (("numbers", has_head), ("body", not has_head)):
        value = mean_result(rows, name)
        sizes.append(None if value is None else Count(value / 1e6, 2, published if same_kind else None))
    return sizes


def _table(
    title: str, backbone: str, columns: Mapping[str, Column], sets: Sequence[DatasetShots] = ()
) -> ResultTable:
    """The columns that hold anything; below VTAB-1k's sets their means, and a note of what they lack."""
    columns = {head: column for head, column in columns.items() if column}
    places = list(sets) or _ordered({p for column in columns.values() for p in column} - {*MEANS})
    vtab_is_there = _has_vtab(places)
    if vtab_is_there:
        places += MEANS
    shots = any(place.shots for place in places)
    return ResultTable(
        title,
        backbone,
        ("dataset", "shots") if shots else ("dataset",),
        [tuple(place) if shots else (place.dataset,) for place in places],
        list(columns),
        [[column.get(place) for column in columns.values()] for place in places],
        _missing(columns) if vtab_is_there else (),
    )


def _has_vtab(places: Iterable[DatasetShots]) -> bool:
    return any(not place.shots for place in places)


def _missing(columns: Mapping[str, Column]) -> list[str]:
    """Why a mean is not shown; columns that lack the same sets share a line."""
    lacking: dict[tuple[str, ...], list[str]] = {}
    for head, column in columns.items():
        lacking.setdefault(tuple(n for n in GROUPS["all"] if DatasetShots(n) not in column), []).append(head)
    return [
        f"No mean over a group with missing sets; {', '.join(heads)}: missing {', '.join(names)}."
        for names, heads in lacking.items()
        if names
    ]


def _ordered(places: Iterable[DatasetShots]) -> list[DatasetShots]:
    """Sets in the paper's order, then by name; shots upwards, "all" last."""
    order = {name: i for i, name in enumerate(("cifar10", *GROUPS["all"]))}

    def key(place: DatasetShots) -> tuple[int, str, float, str]:
        count = float(place.shots) if place.shots.isdigit() else math.inf
        return order.get(place.dataset, len(order)), place.dataset, count, place.shots

    return sorted(places, key=key)
