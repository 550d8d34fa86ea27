"""The paper's federated tables from result rows: by clients and shots, between the bounds, and what was sent.

Global is one classifier of all classes, personalized the mean over the clients of each one's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ..federated.plan import ALGORITHMS, COMPRESSIONS, Plan
from .averages import accuracy, by_backbone, difference, mean_result
from .federations import bound_of, bound_steps, is_federated
from .methods import METHODS
from .published_lookup import published_cost, published_federated
from .result_table import Cell, Count, ResultTable
from .rows import Row

SETTINGS = {"global": "accuracy", "personalized": "personalized"}  # and where a result has it
WORDS = {
    "fedavg": "FedAvg", "fedprox": "FedProx", "trimmed_mean": "trimmed mean", "median": "median", "krum": "Krum",
    "multikrum": "MultiKrum", "none": "float32", "float16": "float16", "int8": "int8",
}  # fmt: skip
# The paper's federations. Its rounds stand with its numbers: Quickdraw has 60 beside BiT, else 120.
PAPERS: dict[str, dict[str, int]] = {
    "cifar100": {"ways": 10, "clients_per_round": 5, "steps": 10, "lower": 400, "upper": 400},
    "quickdraw": {"ways": 35, "clients_per_round": 5, "steps": 10, "lower": 400, "upper": 3000},
}
SIZES = {
    "ways": "classes a client", "rounds": "rounds", "clients_per_round": "clients a round", "steps": "steps a client",
    "lower": "steps of the lower bound", "upper": "steps of the upper bound",
}  # fmt: skip
WIDE = 6  # columns that fit beside each other
Line = tuple[int, int]  # clients and shots
Columns = dict[str, dict[Line, Cell | None]]


class Variant(NamedTuple):
    """What a federation can do differently on the same task."""

    algorithm: str
    compression: str
    secure: bool = False
    private: bool = False

    @classmethod
    def of(cls, row: Row) -> Variant:
        plan = Plan.from_settings(row["settings"])
        return cls(plan.algorithm, plan.compression, plan.secure, plan.privacy is not None)

    def words(self, among: Iterable[Variant]) -> str:
        """What tells it from the others; the algorithm if there are none."""
        several = [len({*values}) > 1 for values in zip(self, *among, strict=True)]
        names = (WORDS[self.algorithm], WORDS[self.compression], "secure", "private")
        told = [
            name
            for name, value, differ in zip(names, self, several, strict=True)
            if differ and value is not False
        ]
        return ", ".join(told) or names[0]


def federated(rows: Sequence[Row], title: str = "Federated accuracy") -> list[ResultTable]:
    """Clients × shots: lower bound, federated learning and upper bound, global and personalized; then the cost."""
    tables = []
    for backbone, own in by_backbone(_federated(rows)).items():
        for what, same in tasks(own).items():
            found = variants(same)
            columns: Columns = {}
            for setting in SETTINGS:
                columns[f"{setting} lower"] = _column(at(same, "lower"), setting)
                for variant in found:
                    head = f"{setting} {variant.words(found) if len(found) > 1 else 'FL'}"
                    columns[head] = _column(of(same, variant), setting)
                columns[f"{setting} upper"] = _column(at(same, "upper"), setting)
            notes = [*_sizes(same), *_above(columns)]
            tables.append(_table(_titled(title, what, own), backbone, columns, notes))
        tables += costs(own, backbone)
    return tables


def federated_algorithms(
    rows: Sequence[Row], title: str = "Federated accuracy by algorithm"
) -> list[ResultTable]:
    """Clients × shots by algorithm, and how far each is from the first on the same seeds."""
    tables = []
    for backbone, own in by_backbone(_federated(rows)).items():
        for what, same in tasks(own).items():
            found = variants(same)
            columns: Columns = {}
            for setting in SETTINGS:
                words = [f"{setting} {variant.words(found)}" for variant in found]
                parts = [of(same, variant) for variant in found]
                columns |= {head: _column(part, setting) for head, part in zip(words, parts, strict=True)}
                for variant, part in zip(found[1:], parts[1:], strict=True):
                    less = f"{setting} {variant.words(found)} − {found[0].words(found)}"
                    columns[less] = _differences(parts[0], part, setting)
            tables.append(_table(_titled(title, what, own), backbone, columns, _sizes(same)))
        tables += costs(own, backbone)
    return tables


def federated_methods(rows: Sequence[Row], title: str = "Federated accuracy by method") -> list[ResultTable]:
    """Clients × shots by method, as BiT against FiT; then what each of them sent."""
    tables = []
    for backbone, own in by_backbone(_federated(rows)).items():
        sets: dict[str, Columns] = {}
        for (dataset, method), same in tasks(own).items():
            found = variants(same)
            for setting in SETTINGS:
                for variant in found:
                    more = f" {variant.words(found)}" if len(found) > 1 else ""
                    column = _column(of(same, variant), setting)
                    sets.setdefault(dataset, {})[f"{setting} {method}{more}"] = column
        for dataset, columns in sets.items():
            named = title if len(sets) == 1 else f"{title}: {dataset}"
            order = dict(sorted(columns.items(), key=lambda item: not item[0].startswith("global")))
            own_set = [row for row in own if row["settings"]["dataset"] == dataset]
            wide = len(order) > WIDE
            tables.append((_long if wide else _table)(named, backbone, order, _sizes(own_set)))
        tables += costs(own, backbone)
    return tables


def costs(rows: Sequence[Row], backbone: str) -> list[ResultTable]:
    """What was sent, both ways, by method and compression; clients and shots of the same cost share a line."""
    lines: dict[tuple[str, ...], list[Count | None]] = {}
    clients: dict[tuple[str, ...], list[int]] = {}
    for (dataset, method), same in tasks(rows).items():
        found = variants(same)
        for variant in found:
            for count in sorted({row["settings"]["clients"] for row in of(same, variant)}):
                some = [r for r in of(same, variant) if r["settings"]["clients"] == count]
                cells = _cost(some)
                if not any(cells):
                    continue
                head = (dataset, method, variant.words(found) if len(found) > 1 else _how(variant))
                key = (*head, *(str(cell) for cell in cells))
                lines[key] = cells
                clients.setdefault(key, []).append(count)
    if not lines:
        return []
    heads = [(*key[:3], ", ".join(map(str, clients[key]))) for key in lines]
    names = [
        "numbers each way", "M numbers a round", "M numbers overall", "MB a round", "MB up overall",
        "MB down overall", "bytes a number",
    ]  # fmt: skip
    notes = ["Both ways, to and from all clients of a round; MB are millions of bytes of the messages."]
    return [
        ResultTable(
            "What was sent",
            backbone,
            ("dataset", "method", "how", "clients"),
            heads,
            names,
            [*lines.values()],
            notes,
        )
    ]


def tasks(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """Rows by data set and method, the methods in their own order."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((str(row["settings"]["dataset"]), str(row["settings"]["method"])), []).append(row)
    known = {method: i for i, method in enumerate(METHODS)}
    return dict(sorted(found.items(), key=lambda item: (item[0][0], known.get(item[0][1], len(known)))))


def variants(rows: Iterable[Row]) -> list[Variant]:
    """The ways to federate among the rows, the plainest first."""
    found = {Variant.of(row) for row in at(rows, "federated")}
    return sorted(found, key=lambda v: (ALGORITHMS.index(v[0]), COMPRESSIONS.index(v[1]), *v[2:]))


def at(rows: Iterable[Row], bound: str) -> list[Row]:
    """The federations themselves, or their lower or upper bounds."""
    return [row for row in rows if bound_of(row["settings"]) == bound]


def of(rows: Iterable[Row], variant: Variant) -> list[Row]:
    """The federations of a variant."""
    return [row for row in at(rows, "federated") if Variant.of(row) == variant]


def by_line(rows: Iterable[Row]) -> dict[Line, list[Row]]:
    """Rows by clients and shots, both upwards."""
    found: dict[Line, list[Row]] = {}
    for row in rows:
        found.setdefault((row["settings"]["clients"], row["settings"]["shots"]), []).append(row)
    return dict(sorted(found.items()))


def _federated(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if is_federated(row["settings"])]


def _with(rows: Iterable[Row], name: str) -> list[Row]:
    """BiT has no personalized accuracy."""
    return [row for row in rows if row["result"].get(name) is not None]


def _column(rows: Iterable[Row], setting: str) -> dict[Line, Cell | None]:
    name = SETTINGS[setting]
    return {
        line: accuracy(same, published_federated(same[0]["settings"], setting), name)
        for line, same in by_line(_with(rows, name)).items()
    }


def _differences(ours: Iterable[Row], theirs: Iterable[Row], setting: str) -> dict[Line, Cell | None]:
    name = SETTINGS[setting]
    a, b = by_line(_with(ours, name)), by_line(_with(theirs, name))
    return {line: difference(a[line], b[line], name) for line in a if line in b}


def _table(title: str, backbone: str, columns: Columns, notes: Sequence[str]) -> ResultTable:
    columns = {head: column for head, column in columns.items() if column}
    lines = sorted({line for column in columns.values() for line in column})
    return ResultTable(
        title,
        backbone,
        ("clients", "shots"),
        [(str(clients), str(shots)) for clients, shots in lines],
        list(columns),
        [[column.get(line) for column in columns.values()] for line in lines],
        list(notes),
    )


def _long(title: str, backbone: str, columns: Columns, notes: Sequence[str]) -> ResultTable:
    """The same with a line for each method: many of them side by side would not fit a page."""
    found: dict[str, Columns] = {}  # by method, then by setting
    for head, column in columns.items():
        setting, _, method = head.partition(" ")
        found.setdefault(method, {})[setting] = column
    lines = sorted({line for column in columns.values() for line in column})
    heads = [
        (*line, method)
        for line in lines
        for method in found
        if any(line in c for c in found[method].values())
    ]
    return ResultTable(
        title,
        backbone,
        ("clients", "shots", "method"),
        [(str(clients), str(shots), method) for clients, shots, method in heads],
        list(SETTINGS),
        [[found[m].get(setting, {}).get((c, s)) for setting in SETTINGS] for c, s, m in heads],
        list(notes),
    )


def _titled(title: str, what: tuple[str, str], rows: Sequence[Row]) -> str:
    """With the data set and the method where there are several."""
    sets, methods = ({*names} for names in zip(*tasks(rows), strict=True))
    more = [name for name, among in zip(what, (sets, methods), strict=True) if len(among) > 1]
    return f"{title}: {', '.join(more)}" if more else title


def _above(columns: Columns) -> list[str]:
    """Where federated learning is not above its lower bound: a reader should not have to look for it."""
    said = []
    for setting in SETTINGS:
        lower = columns[f"{setting} lower"]
        for head, column in columns.items():
            if not head.startswith(setting) or head.endswith((" lower", " upper")):
                continue
            both = [(line, cell, lower[line]) for line, cell in column.items() if line in lower]
            below = [line for line, cell, bound in both if cell and bound and cell.mean <= bound.mean]
            where = "; ".join(f"{clients} clients, {shots} shots" for clients, shots in below)
            if both:
                count = f"{len(both) - len(below)} of {len(both)}"
                said.append(f"{head} above its lower bound: {count}{f' (not: {where})' if where else ''}.")
    return said


def _sizes(rows: Sequence[Row]) -> list[str]:
    """What was done, and what the paper did differently where it has this data set."""
    ours: dict[str, set[int]] = {name: set() for name in SIZES}
    theirs = {name: {value} for name, value in PAPERS.get(rows[0]["settings"]["dataset"], {}).items()}
    for row in rows:
        settings, plan, bound = (
            row["settings"],
            Plan.from_settings(row["settings"]),
            bound_of(row["settings"]),
        )
        ours["ways"].add(settings["ways"])
        if bound != "federated":
            ours[bound].add(bound_steps(settings) or plan.training.steps or 0)
            continue
        for name in ("rounds", "clients_per_round", "steps"):
            ours[name].add(plan.to_dict()[name])
        if (beside := published_federated(settings, "global")) is not None:
            theirs.setdefault("rounds", set()).add(int(beside.settings["rounds"]))
    done = [_said(name, found) for name, found in ours.items() if found]
    other = [_said(n, theirs[n]) for n, found in ours.items() if found and theirs.get(n, found) != found]
    sets = dict.fromkeys(dataset for dataset, _ in tasks(rows))
    methods = dict.fromkeys(method for _, method in tasks(rows))
    what = (
        f"{' and '.join(methods) if len(methods) < 4 else f'{len(methods)} methods'} on {' and '.join(sets)}"
    )
    return [f"Ours: {what}, {', '.join(done)}.", *([f"The paper: {', '.join(other)}."] if other else [])]


def _said(name: str, values: Iterable[int]) -> str:
    return f"{' or '.join(map(str, sorted(values)))} {SIZES[name]}"


def _how(variant: Variant) -> str:
    return ", ".join([WORDS[variant.algorithm], WORDS[variant.compression]])


def _cost(rows: Sequence[Row]) -> list[Count | None]:
    settings = rows[0]["settings"]
    names = ("updateable", "parameters_per_round", "parameters", "bytes_up", "bytes_down")
    each, a_round, overall, up, down = (mean_result(rows, name) for name in names)
    rounds = Plan.from_settings(settings).rounds
    both = None if up is None or down is None else up + down
    return [
        None if each is None else Count(each, 0),
        _count(a_round, 1e6, lambda: published_cost(settings, "per_round")),
        _count(overall, 1e6, lambda: published_cost(settings, "overall")),
        None if both is None or not rounds else _count(both / rounds, 1e6),
        _count(up, 1e6),
        _count(down, 1e6),
        None if both is None or not overall else Count(both / overall, 2),
    ]


def _count(value: float | None, unit: float, beside: Callable[[], Any] = lambda: None) -> Count | None:
    """With as many digits as a reader wants."""
    if value is None:
        return None
    size = value / unit
    return Count(size, 0 if size >= 100 else 1 if size >= 10 else 2, beside())
