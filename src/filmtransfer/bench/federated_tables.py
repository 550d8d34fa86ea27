"""The paper's federated tables from result rows: accuracy by clients and shots with the bounds, and communication.

The global accuracy is that of one classifier over all classes, the personalized one the mean over the clients' own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ..federated.plan import ALGORITHMS, COMPRESSIONS, Plan
from .averages import accuracy, by_backbone, difference, mean_result
from .federated_settings import bound_of, bound_steps, is_federated
from .methods import METHODS
from .published import Published
from .published_lookup import published_cost, published_federated
from .result_table import Cell, Count, ResultTable
from .rows import Row, group_by, quantity

METRICS = {"global": "accuracy", "personalized": "personalized"}  # with their keys in a result
LABELS = {
    "fedavg": "FedAvg", "fedprox": "FedProx", "trimmed_mean": "trimmed mean", "median": "median", "krum": "Krum",
    "multikrum": "MultiKrum", "none": "float32", "float16": "float16", "int8": "int8",
}  # fmt: skip
# The paper's federations. Their rounds come with the published accuracy: Quickdraw has 60 with BiT, else 120.
PAPER_SIZES: dict[str, dict[str, int]] = {
    "cifar100": {"ways": 10, "clients_per_round": 5, "steps": 10, "lower": 400, "upper": 400},
    "quickdraw": {"ways": 35, "clients_per_round": 5, "steps": 10, "lower": 400, "upper": 3000},
}
SIZE_LABELS = {
    "ways": "classes per client", "rounds": "rounds", "clients_per_round": "clients per round",
    "steps": "steps per client", "lower": "steps of the lower bound", "upper": "steps of the upper bound",
}  # fmt: skip
MAX_COLUMNS = 6  # that fit on a page
ClientsShots = tuple[int, int]
Column = dict[ClientsShots, Cell | None]
Columns = dict[str, Column]


class Variant(NamedTuple):
    """How a task is federated."""

    algorithm: str
    compression: str
    secure: bool = False
    private: bool = False

    @classmethod
    def from_row(cls, row: Row) -> Variant:
        """Return the variant of a row."""
        plan = Plan.from_settings(row["settings"])
        return cls(plan.algorithm, plan.compression, plan.secure, plan.privacy is not None)

    def label(self, among: Iterable[Variant]) -> str:
        """Return what distinguishes it from the others; the algorithm if there are none."""
        differs = [len({*values}) > 1 for values in zip(self, *among, strict=True)]
        names = (LABELS[self.algorithm], LABELS[self.compression], "secure", "private")
        parts = [
            name for name, value, d in zip(names, self, differs, strict=True) if d and value is not False
        ]
        return ", ".join(parts) or names[0]


def federated(rows: Sequence[Row], title: str = "Federated accuracy") -> list[ResultTable]:
    """Return clients × shots with lower bound, federated learning and upper bound; then the communication."""
    return _task_tables(rows, title, _bound_columns)


def federated_algorithms(
    rows: Sequence[Row], title: str = "Federated accuracy by algorithm"
) -> list[ResultTable]:
    """Return clients × shots by algorithm, with the difference of each to the first on the same seeds."""
    return _task_tables(rows, title, _algorithm_columns)


def _task_tables(
    rows: Sequence[Row], title: str, columns_of: Callable[[list[Row]], Columns]
) -> list[ResultTable]:
    """Return a table for each dataset and method, and the communication, by backbone."""
    tables = []
    for backbone, own in by_backbone(_federated(rows)).items():
        for task, same in group_by_task(own).items():
            columns = columns_of(same)
            notes = [*_size_notes(same), *_lower_bound_notes(columns)]
            tables.append(_table(_task_title(title, task, own), backbone, columns, notes))
        tables += communication_tables(own, backbone)
    return tables


def _bound_columns(rows: list[Row]) -> Columns:
    variants = list_variants(rows)
    columns: Columns = {}
    for metric in METRICS:
        columns[f"{metric} lower"] = _column(select_bound(rows, "lower"), metric)
        for variant in variants:
            head = f"{metric} {variant.label(variants) if len(variants) > 1 else 'FL'}"
            columns[head] = _column(select_variant(rows, variant), metric)
        columns[f"{metric} upper"] = _column(select_bound(rows, "upper"), metric)
    return columns


def _algorithm_columns(rows: list[Row]) -> Columns:
    variants = {v.label(list_variants(rows)): select_variant(rows, v) for v in list_variants(rows)}
    columns: Columns = {}
    for metric in METRICS:
        columns |= {f"{metric} {label}": _column(own, metric) for label, own in variants.items()}
        first, *others = [*variants] or [""]
        for label in others:
            columns[f"{metric} {label} − {first}"] = _differences(variants[first], variants[label], metric)
    return columns


def federated_methods(rows: Sequence[Row], title: str = "Federated accuracy by method") -> list[ResultTable]:
    """Return clients × shots by method, such as BiT and FiT; then the communication."""
    tables = []
    for backbone, own in by_backbone(_federated(rows)).items():
        datasets: dict[str, Columns] = {}
        for (dataset, method), same in group_by_task(own).items():
            variants = list_variants(same)
            for metric in METRICS:
                for variant in variants:
                    suffix = f" {variant.label(variants)}" if len(variants) > 1 else ""
                    column = _column(select_variant(same, variant), metric)
                    datasets.setdefault(dataset, {})[f"{metric} {method}{suffix}"] = column
        for dataset, columns in datasets.items():
            table_title = title if len(datasets) == 1 else f"{title}: {dataset}"
            ordered = dict(sorted(columns.items(), key=lambda item: not item[0].startswith("global")))
            notes = _size_notes([row for row in own if row["settings"]["dataset"] == dataset])
            make_table = _long_table if len(ordered) > MAX_COLUMNS else _table
            tables.append(make_table(table_title, backbone, ordered, notes))
        tables += communication_tables(own, backbone)
    return tables


def communication_tables(rows: Sequence[Row], backbone: str) -> list[ResultTable]:
    """Return the communication by method and variant; numbers of clients with the same cost share a line."""
    lines: dict[tuple[str, ...], list[Count | None]] = {}
    clients: dict[tuple[str, ...], list[int]] = {}
    for (dataset, method), same in group_by_task(rows).items():
        variants = list_variants(same)
        for variant in variants:
            own = select_variant(same, variant)
            for count in sorted({row["settings"]["clients"] for row in own}):
                cells = _costs([row for row in own if row["settings"]["clients"] == count])
                if not any(cells):
                    continue
                plain = f"{LABELS[variant.algorithm]}, {LABELS[variant.compression]}"
                label = variant.label(variants) if len(variants) > 1 else plain
                key = (dataset, method, label, *(str(cell) for cell in cells))
                lines[key] = cells
                clients.setdefault(key, []).append(count)
    if not lines:
        return []
    heads = [(*key[:3], ", ".join(map(str, clients[key]))) for key in lines]
    names = [
        "parameters each way", "M parameters per round", "M parameters in total", "MB per round", "MB up in total",
        "MB down in total", "bytes per parameter",
    ]  # fmt: skip
    notes = ["To and from all clients of a round; MB are millions of bytes of the messages."]
    row_names = ("dataset", "method", "variant", "clients")
    return [ResultTable("Communication", backbone, row_names, heads, names, [*lines.values()], notes)]


def group_by_task(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """Group rows by dataset and method, the methods in the order of ``METHODS``."""
    groups = group_by(rows, lambda row: (str(row["settings"]["dataset"]), str(row["settings"]["method"])))
    order = {method: i for i, method in enumerate(METHODS)}
    return dict(sorted(groups.items(), key=lambda item: (item[0][0], order.get(item[0][1], len(order)))))


def list_variants(rows: Iterable[Row]) -> list[Variant]:
    """Return the variants among the rows, the simplest first."""
    variants = {Variant.from_row(row) for row in select_bound(rows, "federated")}
    return sorted(variants, key=lambda v: (ALGORITHMS.index(v[0]), COMPRESSIONS.index(v[1]), *v[2:]))


def select_bound(rows: Iterable[Row], bound: str) -> list[Row]:
    """Return the federations themselves ("federated"), or their "lower" or "upper" bounds."""
    return [row for row in rows if bound_of(row["settings"]) == bound]


def select_variant(rows: Iterable[Row], variant: Variant) -> list[Row]:
    """Return the federations of a variant."""
    return [row for row in select_bound(rows, "federated") if Variant.from_row(row) == variant]


def _by_clients_shots(rows: Iterable[Row]) -> dict[ClientsShots, list[Row]]:
    groups = group_by(rows, lambda row: (row["settings"]["clients"], row["settings"]["shots"]))
    return dict(sorted(groups.items()))


def _federated(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if is_federated(row["settings"])]


def _with_result(rows: Iterable[Row], name: str) -> list[Row]:
    """Return the rows that have this result: BiT has no personalized accuracy."""
    return [row for row in rows if row["result"].get(name) is not None]


def _column(rows: Iterable[Row], metric: str) -> Column:
    name = METRICS[metric]
    return {
        key: accuracy(same, published_federated(same[0]["settings"], metric), name)
        for key, same in _by_clients_shots(_with_result(rows, name)).items()
    }


def _differences(first: Iterable[Row], second: Iterable[Row], metric: str) -> Column:
    name = METRICS[metric]
    a, b = (_by_clients_shots(_with_result(rows, name)) for rows in (first, second))
    return {key: difference(a[key], b[key], name) for key in a if key in b}


def _table(title: str, backbone: str, columns: Columns, notes: Sequence[str]) -> ResultTable:
    columns = {head: column for head, column in columns.items() if column}
    keys = sorted({key for column in columns.values() for key in column})
    return ResultTable(
        title,
        backbone,
        ("clients", "shots"),
        [(str(clients), str(shots)) for clients, shots in keys],
        list(columns),
        [[column.get(key) for column in columns.values()] for key in keys],
        list(notes),
    )


def _long_table(title: str, backbone: str, columns: Columns, notes: Sequence[str]) -> ResultTable:
    """Return the table with one line per method, for more methods than columns fit on a page."""
    methods: dict[str, Columns] = {}  # by method, then by metric
    for head, column in columns.items():
        metric, _, method = head.partition(" ")
        methods.setdefault(method, {})[metric] = column
    keys = sorted({key for column in columns.values() for key in column})
    heads = [
        (*key, method)
        for key in keys
        for method in methods
        if any(key in column for column in methods[method].values())
    ]
    return ResultTable(
        title,
        backbone,
        ("clients", "shots", "method"),
        [(str(clients), str(shots), method) for clients, shots, method in heads],
        list(METRICS),
        [[methods[m].get(metric, {}).get((c, s)) for metric in METRICS] for c, s, m in heads],
        list(notes),
    )


def _task_title(title: str, task: tuple[str, str], rows: Sequence[Row]) -> str:
    """Return the title with dataset and method, where there are several."""
    datasets, methods = ({*names} for names in zip(*group_by_task(rows), strict=True))
    parts = [name for name, among in zip(task, (datasets, methods), strict=True) if len(among) > 1]
    return f"{title}: {', '.join(parts)}" if parts else title


def _lower_bound_notes(columns: Columns) -> list[str]:
    """Return where federated learning is not above its lower bound."""
    notes = []
    for metric in METRICS:
        lower = columns.get(f"{metric} lower", {})
        for head, column in columns.items():
            if not head.startswith(metric) or head.endswith((" lower", " upper")):
                continue
            both = [(key, cell, lower[key]) for key, cell in column.items() if key in lower]
            below = [key for key, cell, bound in both if cell and bound and cell.mean <= bound.mean]
            exceptions = "; ".join(
                f"{quantity(clients, 'client')}, {quantity(shots, 'shot')}" for clients, shots in below
            )
            if both:
                count = f"{len(both) - len(below)} of {len(both)}"
                suffix = f" (not: {exceptions})" if exceptions else ""
                notes.append(f"{head} above its lower bound: {count}{suffix}.")
    return notes


def _size_notes(rows: Sequence[Row]) -> list[str]:
    """Return the sizes of the federations, and those of the paper where they differ."""
    ours: dict[str, set[int]] = {name: set() for name in SIZE_LABELS}
    paper = {name: {value} for name, value in PAPER_SIZES.get(rows[0]["settings"]["dataset"], {}).items()}
    for row in rows:
        settings = row["settings"]
        plan, bound = Plan.from_settings(settings), bound_of(settings)
        ours["ways"].add(settings["ways"])
        if bound != "federated":
            ours[bound].add(bound_steps(settings) or plan.training.steps or 0)
            continue
        ours["rounds"].add(plan.rounds)
        ours["clients_per_round"].add(plan.clients_per_round)
        ours["steps"].add(plan.training.steps or 0)
        if (published := published_federated(settings, "global")) is not None:
            paper.setdefault("rounds", set()).add(int(published.settings["rounds"]))
    sizes = [_format_size(name, values) for name, values in ours.items() if values]
    other = [
        _format_size(n, paper[n]) for n, values in ours.items() if values and paper.get(n, values) != values
    ]
    datasets = dict.fromkeys(dataset for dataset, _ in group_by_task(rows))
    methods = dict.fromkeys(method for _, method in group_by_task(rows))
    subject = " and ".join(methods) if len(methods) < 4 else f"{len(methods)} methods"
    ours_note = f"Ours: {subject} on {' and '.join(datasets)}, {', '.join(sizes)}."
    return [ours_note, *([f"The paper: {', '.join(other)}."] if other else [])]


def _format_size(name: str, values: Iterable[int]) -> str:
    return f"{' or '.join(map(str, sorted(values)))} {SIZE_LABELS[name]}"


def _costs(rows: Sequence[Row]) -> list[Count | None]:
    settings = rows[0]["settings"]
    names = ("updateable", "parameters_per_round", "parameters", "bytes_up", "bytes_down")
    each, per_round, overall, up, down = (mean_result(rows, name) for name in names)
    rounds = Plan.from_settings(settings).rounds
    both = None if up is None or down is None else up + down
    return [
        None if each is None else Count(each, 0),
        _millions(per_round, published_cost(settings, "per_round")),
        _millions(overall, published_cost(settings, "overall")),
        None if both is None or not rounds else _millions(both / rounds),
        _millions(up),
        _millions(down),
        None if both is None or not overall else Count(both / overall, 2),
    ]


def _millions(value: float | None, published: Published | None = None) -> Count | None:
    """Return a number in millions with three significant digits."""
    if value is None:
        return None
    millions = value / 1e6
    return Count(millions, 0 if millions >= 100 else 1 if millions >= 10 else 2, published)
