"""From runs to cells: runs that differ in nothing but the seed become one."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import InputError
from ..training.assess.evaluation import mean_interval
from .methods import METHODS
from .published import GROUPS, Published
from .recipe import Run
from .result_table import Cell, Count

Row = Mapping[str, Any]  # a line of the results file
Runs = dict["DatasetShots", list[Row]]


class DatasetShots(NamedTuple):
    """What a run was tried on, or a group of VTAB-1k; VTAB-1k has no shots."""

    dataset: str
    shots: str = ""

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> DatasetShots:
        shots = settings.get("shots", "all")
        if shots is None or settings.get("protocol") == "vtab":
            shots = "" if shots in (None, "all") else f"{shots} of 1k"
        return cls(str(settings["dataset"]), str(shots))


def by_method(rows: Iterable[Row], name: Callable[[Row], str]) -> dict[str, Runs]:
    """Rows by method and place, the methods in their own order."""
    found: dict[str, Runs] = {}
    for row in rows:
        runs = found.setdefault(name(row), {})
        runs.setdefault(DatasetShots.from_settings(row["settings"]), []).append(row)
    known = {method: i for i, method in enumerate(METHODS)}
    return dict(sorted(found.items(), key=lambda item: (known.get(item[0], len(known)), item[0])))


def by_backbone(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows of each backbone; another way of loading it does not make it another."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(str(row["settings"]["backbone"]).removesuffix("_released"), []).append(row)
    return found


def only(runs: Runs, wanted: Callable[[Mapping[str, Any]], bool]) -> Runs:
    """The runs whose settings are wanted, and the places that have any."""
    kept = {place: [row for row in same if wanted(row["settings"])] for place, same in runs.items()}
    return {place: same for place, same in kept.items() if same}


def accuracies(
    runs: Runs, beside: Callable[[Mapping[str, Any]], Published | None]
) -> dict[DatasetShots, Cell | Count]:
    """A cell for each place, and for each group of VTAB-1k of which no set is missing."""
    cells = {place: accuracy(same, beside(same[0]["settings"])) for place, same in runs.items()}
    return _with_means(
        cells, lambda group: beside({**runs[DatasetShots(GROUPS[group][0])][0]["settings"], "dataset": group})
    )


def _with_means(
    cells: Mapping[DatasetShots, Cell], beside: Callable[[str], Published | None]
) -> dict[DatasetShots, Cell | Count]:
    """With the mean of each group of VTAB-1k of which no set is missing."""
    found: dict[DatasetShots, Cell | Count] = {**cells}
    for group, names in GROUPS.items():
        members = [cells[DatasetShots(name)] for name in names if DatasetShots(name) in cells]
        if len(members) == len(names):
            found[DatasetShots(group)] = mean_over_sets(members, beside(group))
    return found


def accuracy(rows: Sequence[Row], beside: Published | None = None, name: str = "accuracy") -> Cell:
    """Mean and 95% interval over seeds, of runs that are otherwise the same."""
    return _cell(list(_by_seed(rows, name).values()), beside)


def mean_over_sets(cells: Sequence[Cell], beside: Published | None = None) -> Cell:
    """The mean of means; sets are drawn independently, so their errors add as squares."""
    halves = [cell.half for cell in cells if cell.half is not None]
    half = math.sqrt(sum(h * h for h in halves)) / len(cells) if len(halves) == len(cells) else None
    mean = sum(cell.mean for cell in cells) / len(cells)
    return Cell(mean, half, min(cell.seeds for cell in cells), beside)


def differences(ours: Runs, theirs: Runs) -> dict[DatasetShots, Cell | Count]:
    """Theirs less ours, seed by seed, so that the draw of the images does not count."""
    cells: dict[DatasetShots, Cell] = {}
    for place in ours.keys() & theirs.keys():
        if (cell := difference(ours[place], theirs[place])) is not None:
            cells[place] = cell
    return _with_means(cells, lambda _: None)


def difference(ours: Sequence[Row], theirs: Sequence[Row], name: str = "accuracy") -> Cell | None:
    """Theirs less ours over the seeds that both have; None if there is no such seed."""
    a, b = _by_seed(ours, name), _by_seed(theirs, name)
    common = sorted(a.keys() & b.keys())
    return _cell([b[seed] - a[seed] for seed in common]) if common else None


def mean_result(rows: Sequence[Row], name: str) -> float | None:
    """The mean of something else that runs record; None if one of them did not."""
    values = [row["result"].get(name) for row in rows]
    return None if None in values else sum(map(float, values)) / len(values)


def _cell(percents: list[float], beside: Published | None = None) -> Cell:
    mean, half = mean_interval(percents)
    return Cell(mean, None if math.isnan(half) else half, len(percents), beside)


def _by_seed(rows: Sequence[Row], name: str = "accuracy") -> dict[int, float]:
    """Accuracy in percent by seed; refuses to average what differs in anything else."""
    first = Run(rows[0]["settings"]).decides()
    for settings in (Run(row["settings"]).decides() for row in rows):
        for key in sorted((first.keys() | settings.keys()) - {"seed"}):
            if json.dumps(first.get(key)) != json.dumps(settings.get(key)):
                raise InputError(
                    f"Runs of {settings['method']} on {settings['dataset']} differ in {key} "
                    f"({first.get(key)!r} and {settings.get(key)!r}) and cannot be averaged.",
                    "Give the results of one recipe at a time.",
                )
    return {row["settings"]["seed"]: 100 * row["result"][name] for row in rows}
