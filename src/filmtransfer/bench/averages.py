"""Average runs that differ only in the seed into the cells of a table."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ..errors import InputError
from ..training.assess.evaluation import mean_interval
from .datasets import GROUPS
from .methods import METHODS
from .published import Published
from .recipe import Run
from .result_table import Cell, Count
from .rows import Row, RunSettings, group_by

Runs = dict["DatasetShots", list[Row]]


class DatasetShots(NamedTuple):
    """The dataset (or group of VTAB-1k) and the shots that runs were evaluated on; VTAB-1k has no shots."""

    dataset: str
    shots: str = ""

    @classmethod
    def from_settings(cls, settings: RunSettings) -> DatasetShots:
        """Return the dataset and shots of a run."""
        shots = settings.get("shots", "all")
        if shots is None or settings.get("protocol") == "vtab":
            shots = "" if shots in (None, "all") else f"{shots} of 1k"
        return cls(str(settings["dataset"]), str(shots))


def by_method(rows: Iterable[Row], name: Callable[[Row], str]) -> dict[str, Runs]:
    """Group rows by method, dataset and shots, the methods in the order of ``METHODS``."""
    groups = {
        method: group_by(own, lambda row: DatasetShots.from_settings(row["settings"]))
        for method, own in group_by(rows, name).items()
    }
    order = {method: i for i, method in enumerate(METHODS)}
    return dict(sorted(groups.items(), key=lambda item: (order.get(item[0], len(order)), item[0])))


def by_backbone(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Group rows by backbone; a backbone and its released variant are one group."""
    return group_by(rows, lambda row: str(row["settings"]["backbone"]).removesuffix("_released"))


def filter_runs(runs: Runs, condition: Callable[[RunSettings], bool]) -> Runs:
    """Return the runs whose settings meet the condition."""
    kept = {key: [row for row in same if condition(row["settings"])] for key, same in runs.items()}
    return {key: same for key, same in kept.items() if same}


def accuracies(
    runs: Runs, published: Callable[[RunSettings], Published | None]
) -> dict[DatasetShots, Cell | Count]:
    """Return a cell for each dataset and shots, and for each group of VTAB-1k of which no dataset is missing."""
    cells = {key: accuracy(same, published(same[0]["settings"])) for key, same in runs.items()}
    return _with_means(
        cells,
        lambda group: published({**runs[DatasetShots(GROUPS[group][0])][0]["settings"], "dataset": group}),
    )


def _with_means(
    cells: Mapping[DatasetShots, Cell], published: Callable[[str], Published | None]
) -> dict[DatasetShots, Cell | Count]:
    """Add the mean of each group of VTAB-1k of which no dataset is missing."""
    with_means: dict[DatasetShots, Cell | Count] = {**cells}
    for group, names in GROUPS.items():
        members = [cells[DatasetShots(name)] for name in names if DatasetShots(name) in cells]
        if len(members) == len(names):
            with_means[DatasetShots(group)] = mean_over_datasets(members, published(group))
    return with_means


def accuracy(rows: Sequence[Row], published: Published | None = None, name: str = "accuracy") -> Cell:
    """Return mean and 95% interval over seeds of runs that are otherwise the same."""
    return _cell(list(_by_seed(rows, name).values()), published)


def mean_over_datasets(cells: Sequence[Cell], published: Published | None = None) -> Cell:
    """Return the mean of means; datasets are sampled independently, so their variances add up."""
    halves = [cell.half_width for cell in cells if cell.half_width is not None]
    half_width = math.sqrt(sum(h * h for h in halves)) / len(cells) if len(halves) == len(cells) else None
    mean = sum(cell.mean for cell in cells) / len(cells)
    return Cell(mean, half_width, min(cell.seeds for cell in cells), published)


def differences(ours: Runs, theirs: Runs) -> dict[DatasetShots, Cell | Count]:
    """Return theirs minus ours, paired by seed, so that the sampling of the images does not matter."""
    cells: dict[DatasetShots, Cell] = {}
    for key in ours.keys() & theirs.keys():
        if (cell := difference(ours[key], theirs[key])) is not None:
            cells[key] = cell
    return _with_means(cells, lambda _: None)


def difference(ours: Sequence[Row], theirs: Sequence[Row], name: str = "accuracy") -> Cell | None:
    """Return theirs minus ours over the seeds that both have; None if there is no such seed."""
    a, b = _by_seed(ours, name), _by_seed(theirs, name)
    common = sorted(a.keys() & b.keys())
    return _cell([b[seed] - a[seed] for seed in common]) if common else None


def mean_result(rows: Sequence[Row], name: str) -> float | None:
    """Return the mean of another measurement of the runs; None if one of them lacks it."""
    values = [row["result"].get(name) for row in rows]
    return None if None in values else sum(map(float, values)) / len(values)


def run_notes(rows: Iterable[Row], setting: str) -> list[str]:
    """Return the notes of the runs, each once with the values of a setting of its runs."""
    by_note: dict[str, list[str]] = {}
    for row in rows:
        for note in row["result"].get("notes", ()):
            by_note.setdefault(note, []).append(str(row["settings"][setting]))
    return [f"{', '.join(dict.fromkeys(values))}: {note}" for note, values in by_note.items()]


def _cell(percentages: list[float], published: Published | None = None) -> Cell:
    mean, half_width = mean_interval(percentages)
    return Cell(mean, None if math.isnan(half_width) else half_width, len(percentages), published)


def _by_seed(rows: Sequence[Row], name: str = "accuracy") -> dict[int, float]:
    """Return the accuracy in percent by seed; raise an error if the runs differ in anything else."""
    first = Run(rows[0]["settings"]).identity()
    for settings in (Run(row["settings"]).identity() for row in rows):
        for key in sorted((first.keys() | settings.keys()) - {"seed"}):
            if json.dumps(first.get(key)) != json.dumps(settings.get(key)):
                raise InputError(
                    f"Runs of {settings['method']} on {settings['dataset']} differ in {key} "
                    f"({first.get(key)!r} and {settings.get(key)!r}) and cannot be averaged.",
                    "Use the results of one recipe at a time.",
                )
    return {row["settings"]["seed"]: 100 * row["result"][name] for row in rows}
