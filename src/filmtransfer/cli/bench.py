"""fit bench data | recipes | run RECIPE | report RECIPE"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ..errors import InputError, check_count
from ..formatting import count, duration, file_size, list_names, percent
from .printing import Json, Printer, Threads, command_group
from .progress import PhaseDisplay, progress_line
from .settings import read_settings

if TYPE_CHECKING:
    from ..bench.recipe import Recipe
    from ..bench.sweep import SweepProgress, SweepResult

app = command_group("Rerun the paper's experiments and compare with the published numbers.")

Root = Annotated[Path, typer.Option("--data-root", help="The folder with the datasets.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Folder for results, tables and figures; by default bench/RECIPE."),
]
RecipeName = Annotated[str, typer.Argument(help="A recipe by name ('fit bench recipes'), or a .toml file.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="A setting for all runs, such as backbone=efficientnet_lite0. May be repeated."
    ),
]


@app.command("data")
def data(
    root: Root = Path("data"),
    fetch: Annotated[
        str | None, typer.Option(help="Download this dataset, if its licence allows it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List which datasets are present, which are missing, and how to get them."""
    from ..bench.datasets import DATASETS, custom_datasets, inventory
    from ..bench.datasets import fetch as download
    from ..errors import check_choice

    printer = Printer(as_json)
    if fetch is not None:
        check_choice("The dataset", fetch, DATASETS)
        with progress_line() as show:
            files = download(
                DATASETS[fetch], root, progress=lambda name, done, total: show(done, total or done, name)
            )
        for file in files:
            printer.say(f"{file}: {file_size(file.stat().st_size)}, as published.")
    rows = inventory(root)
    printer.table(
        ["set", "classes", "present"],
        [[r.name, r.classes, "yes" if r.present else "no"] for r in rows],
        right=(1,),
    )
    for present, title in ((False, "Missing"), (True, "Present")):
        if chosen := [r for r in rows if r.present == present]:
            printer.say()
            printer.say(f"{title}:")
        for r in chosen:  # lines of any length, which a pipe does not pad
            printer.say(f"{r.name}: {r.source or r.why_missing}")
    printer.say()
    printer.say(f"{sum(r.present for r in rows)} of {len(rows)} datasets are present in {root}.")
    if not root.is_dir():
        printer.note(f"There is no folder {root} yet. Create it, or name another one with --data-root.")
    if custom := custom_datasets(root):
        printer.say(f"Also present, to be used by name: {', '.join(custom)}.")
    printer.document({"root": str(root), "sets": [vars(r) for r in rows], "own": custom})


@app.command("recipes")
def recipes(as_json: Json = False) -> None:
    """List the recipes of the package."""
    from ..bench.recipe import load_recipe, recipe_names

    printer = Printer(as_json)
    loaded = {name: load_recipe(name) for name in recipe_names()}
    rows = [{"name": name, "runs": len(r.runs(check=False)), "title": r.title} for name, r in loaded.items()]
    printer.table(["recipe", "runs", "title"], [list(row.values()) for row in rows], right=(1,))
    printer.document({"recipes": rows})


@app.command("run")
def run(
    recipe: RecipeName,
    root: Root = Path("data"),
    out: Out = None,
    workers: Annotated[int, typer.Option(help="Number of local processes.")] = 1,
    ray: Annotated[str | None, typer.Option(help="Address of a Ray cluster, or 'auto'.")] = None,
    threads: Threads = None,
    settings: Set = None,
    dataset: Annotated[list[str] | None, typer.Option(help="Only this dataset. May be repeated.")] = None,
    method: Annotated[list[str] | None, typer.Option(help="Only this method. May be repeated.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds 0 … N−1 instead of the recipe's.")] = None,
    as_json: Json = False,
) -> None:
    """Run an experiment; runs that already have a result are not repeated."""
    from ..bench.recipe import load_recipe
    from ..bench.report import write_report
    from ..bench.sweep import SweepWorkers, run_sweep
    from ..bench.workers import LocalWorkers, RayWorkers
    from ..report.figures import load_pyplot

    printer = Printer(as_json)
    chosen = _choices(settings, dataset, method, seeds)
    experiment = load_recipe(recipe).with_settings(**chosen)
    runs = experiment.runs()  # an error for a value that is not allowed
    if not root.is_dir():
        raise InputError(
            f"There is no data folder {root}.",
            "Name it with --data-root; 'fit bench data' lists what it needs.",
        )
    folder = out or Path("bench") / experiment.name

    if experiment.figures:
        load_pyplot()  # raises an error without matplotlib before hours of work, not after

    def make_workers() -> SweepWorkers:
        display = PhaseDisplay(printer.err, None)  # lines that stay, before the first run is named
        if ray:
            display.phase(f"connecting to the Ray cluster {ray}")
            return RayWorkers(ray, root, threads or 1)
        display.phase(f"loading {', '.join(sorted({str(run.settings['backbone']) for run in runs}))}")
        from ..bench.run import check_backbones  # imports torch

        check_backbones(runs)
        return LocalWorkers(workers, root, threads)

    # Ray reports the death of a machine on stdout, which is for the result.
    with sweep_progress(printer) as on_progress, redirect_stdout(sys.stderr):
        result = run_sweep(runs, folder / "results.jsonl", make_workers, on_progress)
    printer.note(*result.notes)
    _print_report(printer, experiment, result, write_report(experiment, result, folder), folder)
    if result.failures:
        raise typer.Exit(3)


@app.command("report")
def report(recipe: RecipeName, out: Out = None, settings: Set = None, as_json: Json = False) -> None:
    """Write tables, figures and page again from the stored results."""
    from ..bench.recipe import load_recipe
    from ..bench.report import write_report
    from ..bench.results import read_results
    from ..bench.sweep import collect_rows, differing_settings

    printer = Printer(as_json)
    experiment = load_recipe(recipe).with_settings(**_choices(settings))
    folder = out or Path("bench") / experiment.name
    results = read_results(folder / "results.jsonl")
    printer.note(*results.notes)
    result = collect_rows(experiment.runs(), results)
    if not result.rows and results.rows:
        differing = differing_settings(experiment.runs(), results.rows.values())
        raise _other_settings(folder, experiment.name, len(results.rows), differing)
    if not result.rows:
        raise InputError(
            f"{folder} has no results of {experiment.name}.", f"Compute them with: fit bench run {recipe}"
        )
    _print_report(printer, experiment, result, write_report(experiment, result, folder), folder)


def _other_settings(folder: Path, name: str, results: int, differing: dict[str, list[object]]) -> InputError:
    """Return the error for results none of which has the settings of the recipe."""
    options = [
        f"--set {key}={shlex.quote(_as_argument(values[0] if len(values) == 1 else values))}"
        for key, values in differing.items()
    ]
    named = f": {' '.join(options)}" if options else ", or compute the results again."
    return InputError(
        f"{folder} has no results of {name} with these settings; "
        f"{count(results, 'result')} of this recipe {'has' if results == 1 else 'have'} other settings.",
        f"Repeat the --set options they were computed with{named}",
    )


def _as_argument(value: object) -> str:
    """Return a value of a result as --set takes it: a text, or TOML, whose simple values are those of JSON."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {json.dumps(one)}" for name, one in value.items()) + "}"
    return value if isinstance(value, str) else json.dumps(value)


def _print_report(
    printer: Printer, experiment: Recipe, result: SweepResult, files: list[Path], folder: Path
) -> None:
    """Print the report, and how many runs have no result yet."""
    from ..bench.rows import quantity

    runs = len(experiment.runs())
    print_sweep(printer, result, runs, files, folder, {"recipe": experiment.name})
    missing = runs - len(result.rows) - len(result.failures)
    if missing:
        have = "has" if missing == 1 else "have"
        printer.note(
            f"{missing} of {quantity(runs, 'run')} {have} no result yet: fit bench run {experiment.name}"
        )


def print_sweep(
    printer: Printer,
    result: SweepResult,
    runs: int,
    files: list[Path],
    folder: Path,
    facts: dict[str, object],
) -> None:
    """Print the tables, the files and each reason of failures once, or everything as JSON, with other ``facts``."""
    from ..bench.rows import group_by, quantity

    for file in files:
        if file.suffix == ".md":
            for line in file.read_text(encoding="utf-8").splitlines():
                printer.say(line)
    if files:
        printer.say(f"Wrote {folder}: {', '.join(file.name for file in files)}.")
    for reason, names in group_by(result.failures, result.failures.__getitem__).items():
        which = names[0] if len(names) == 1 else f"{names[0]}, …"
        printer.note(f"{quantity(len(names), 'run')} failed ({which}): {reason}")
    printer.document(
        {
            **facts,
            "runs": runs,
            "done": len(result.rows),
            "failures": result.failures,
            "files": [str(file) for file in files],
            "rows": result.rows,
        }
    )


def _choices(
    settings: list[str] | None,
    dataset: list[str] | None = None,
    method: list[str] | None = None,
    seeds: int | None = None,
) -> dict[str, Any]:
    """Return the settings that were chosen on the command line."""
    chosen = read_settings(settings, "backbone=efficientnet_lite0")
    chosen |= {name: values for name, values in (("dataset", dataset), ("method", method)) if values}
    if seeds is not None:
        check_count("seeds", seeds)
        chosen["seed"] = list(range(seeds))
    return chosen


@contextmanager
def sweep_progress(printer: Printer) -> Iterator[Callable[[SweepProgress], None]]:
    """Show a progress bar with the runs in progress and the remaining time; print a line for every run that ends.

    Where there is no terminal, print a line for every run that starts as well.
    """
    is_terminal = sys.stderr.isatty()  # now: the bar redirects stderr
    with progress_line() as show:

        def on_progress(progress: SweepProgress) -> None:
            seconds = progress.seconds_left
            remaining = f", about {duration(seconds)} left" if seconds else ""
            failed = f", {progress.failed} failed" if progress.failed else ""
            if progress.last:
                printer.err.print(
                    f"[{progress.done}/{progress.total}{failed}{remaining}] {progress.last}", markup=False
                )
            if progress.started and not is_terminal:
                printer.err.print(f"Computing {progress.started} …", markup=False)
            running = f": {list_names(progress.running, most=2)}" if progress.running else ""
            show(
                progress.done + progress.failed,
                progress.total,
                escape(f"{percent(progress.done / max(progress.total, 1))}{remaining}{running}"),
            )

        yield on_progress
