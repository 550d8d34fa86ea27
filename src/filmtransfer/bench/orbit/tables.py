"""The paper's table of ORBIT from result rows, and the same by user."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ..averages import run_notes
from ..published import BACKBONES, Published, lookup, published
from ..result_table import COMPARISON, Cell, Count, ResultTable, write_tables
from ..rows import Row, quantity
from .dataset import VIDEO_KINDS
from .evaluation import Summary, summarise
from .runs import METHODS

TABLE = "orbit_results"
METRICS = ("frame", "video")
PER_USER = {method.title: method.per_user for method in METHODS.values()}
ORBIT = (17, 158)  # users and objects of its test part
LEGEND = (
    "Percent over all videos of all tasks of all users, ± 1.96 standard errors over these videos (the paper's interval; "
    "the one over users is in the second table). Parameters in millions. "
)
NOT_COMPARABLE = (
    "These are not the {} users and {} objects of ORBIT's test part: the published rows are results on ORBIT, and cannot "
    "be compared with ours."
)
BY_USER = "Percent over a user's videos; below, the mean over users ± 1.96 standard errors over users."

_Summaries = Mapping[tuple[str, str, str], Summary]  # by method, kind of query videos and metric


def orbit_tables(rows: Sequence[Row]) -> list[ResultTable]:
    """Return the paper's table of these results, and the same by user."""
    backbone = str(rows[0]["settings"]["backbone"])
    order = list(PER_USER)
    methods = sorted({str(row["settings"]["method"]) for row in rows}, key=order.index)
    summaries = {
        (method, kind, metric): summarise(own, metric)
        for method in methods
        for kind in VIDEO_KINDS
        for metric in METRICS
        if (own := _select(rows, method, kind))
    }
    return [_table(rows, methods, backbone, summaries), _by_user(methods, backbone, summaries)]


def _table(rows: Sequence[Row], methods: Sequence[str], backbone: str, summaries: _Summaries) -> ResultTable:
    users = {str(row["settings"]["user"]): int(row["result"]["classes"]) for row in rows}
    comparable = (len(users), sum(users.values())) == ORBIT
    heads: list[tuple[str, str]] = []
    cells: list[list[Cell | Count | None]] = []
    for method in methods:
        numbers = _published_numbers(backbone, method)
        theirs = numbers if comparable else [None] * len(numbers)
        heads.append((method, PER_USER[method]))
        cells.append(_method_cells(rows, method, summaries, theirs))
        if numbers[0] is not None and not comparable:
            heads.append((f"{method}, published on ORBIT with {numbers[0].backbone}", PER_USER[method]))
            cells.append([_published_cell(number) for number in numbers])
    tasks = {(row["settings"]["user"], row["settings"]["task"]) for row in rows}
    return ResultTable(
        f"ORBIT, {_count(len(users), 'user')} and {_count(len(tasks), 'task')}",
        backbone,
        ("method", "per user"),
        heads,
        (*(f"{kind}: {metric}" for kind in VIDEO_KINDS for metric in METRICS), "shared", "average"),
        cells,
        _notes(rows),
        LEGEND + (COMPARISON if comparable else NOT_COMPARABLE.format(*ORBIT)),
    )


def _published_numbers(backbone: str, method: str) -> list[Published | None]:
    """Return the published accuracies, and the shared and average parameters, of a method."""
    accuracies = [
        published_orbit_number(backbone, method, f"{metric}_accuracy", videos=kind)
        for kind in VIDEO_KINDS
        for metric in METRICS
    ]
    sizes = ("shared_parameters_m", "parameters_m")
    return [*accuracies, *(published_orbit_number(backbone, method, name) for name in sizes)]


def _method_cells(
    rows: Sequence[Row], method: str, summaries: _Summaries, theirs: Sequence[Published | None]
) -> list[Cell | Count | None]:
    own = _select(rows, method)
    by_user = {row["settings"]["user"]: row["result"]["numbers"] for row in own}
    sizes = (own[0]["result"]["shared"], sum(by_user.values()) / len(by_user))
    own_summaries = [summaries.get((method, kind, metric)) for kind in VIDEO_KINDS for metric in METRICS]
    return [
        *(
            None if s is None else _cell(s.mean, s.over_videos, number)
            for s, number in zip(own_summaries, theirs[:-2], strict=True)
        ),
        *(Count(size / 1e6, 3, number) for size, number in zip(sizes, theirs[-2:], strict=True)),
    ]


def _by_user(methods: Sequence[str], backbone: str, summaries: _Summaries) -> ResultTable:
    heads: list[tuple[str, str, str]] = []
    cells: list[list[Cell | Count | None]] = []
    users = sorted({user for summary in summaries.values() for user in summary.by_user})
    for kind in VIDEO_KINDS:
        for metric in METRICS:
            own = [summaries.get((method, kind, metric)) for method in methods]
            if not any(own):
                continue
            for user in users:
                if any(summary and user in summary.by_user for summary in own):
                    heads.append((kind, metric, user))
                    cells.append([_user_cell(summary, user) for summary in own])
            heads.append((kind, metric, "mean of users"))
            cells.append([None if s is None else _cell(s.mean_of_users, s.over_users, None) for s in own])
    return ResultTable(
        "ORBIT by user", backbone, ("videos", "accuracy", "user"), heads, methods, cells, (), BY_USER
    )


def published_orbit_number(backbone: str, method: str, metric: str, **setting: str) -> Published | None:
    """Return the published number on this backbone, or else on the first backbone of the method in the paper."""
    has = list(dict.fromkeys(p.backbone for p in published() if p.table == TABLE and p.method == method))
    if not has:
        return None
    ours = BACKBONES.get(backbone)
    return lookup(TABLE, "orbit", method, metric, ours if ours in has else has[0], **setting)


def write_orbit(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Write both tables in three formats; return the files."""
    return write_tables(dict(zip(("table", "users"), orbit_tables(rows), strict=True)), folder)


def _select(rows: Iterable[Row], method: str, kind: str | None = None) -> list[Row]:
    return [
        row
        for row in rows
        if row["settings"]["method"] == method and kind in (None, row["settings"]["videos"])
    ]


def _cell(mean: float, half_width: float, theirs: Published | None) -> Cell:
    return Cell(mean, None if math.isnan(half_width) else half_width, 1, theirs)


def _user_cell(summary: Summary | None, user: str) -> Cell | None:
    return Cell(summary.by_user[user], None, 1) if summary and user in summary.by_user else None


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _published_cell(number: Published | None) -> Cell | Count | None:
    if number is None:
        return None
    if number.metric.endswith("_m"):
        return Count(number.value, 2)
    return Cell(number.value, number.half_width, 1)


def _notes(rows: Sequence[Row]) -> list[str]:
    """Return the notes of the runs, each once with its users, and how many runs ended early."""
    notes = run_notes(rows, "user")
    ended = sum(row["result"].get("stopped") == "not finite" for row in rows)
    if ended:
        notes.append(
            f"{quantity(ended, 'run')} ended because of parameters that are not finite; the last finite ones are used."
        )
    return notes
