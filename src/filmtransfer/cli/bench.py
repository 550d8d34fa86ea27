"""fit bench data | recipes | run RECIPE | report RECIPE"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError, UsageError
from ..formatting import duration, file_size, percent
from .printing import Json, Printer, Threads, progress_line
from .settings import read_settings

app = typer.Typer(
    help="Rerun the paper's experiments, and see ours beside the published numbers.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Root = Annotated[Path, typer.Option("--data-root", help="The folder that holds the image sets.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Folder for results, tables and figures; by default bench/RECIPE."),
]
RecipeName = Annotated[str, typer.Argument(help="A recipe by name ('fit bench recipes'), or a .toml file.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="A setting for all runs, as in --set backbone=efficientnet_lite0. May be repeated."
    ),
]


@app.command("data")
def data(
    root: Root = Path("data"),
    fetch: Annotated[str | None, typer.Option(help="Download this set, where its licence allows it.")] = None,
    as_json: Json = False,
) -> None:
    """Say which image sets are present, which are missing, and what to do about it."""
    from ..bench.datasets import DATASETS, custom_datasets, inventory
    from ..bench.datasets import fetch as download
    from ..errors import invalid_choice

    printer = Printer(as_json)
    if fetch is not None:
        if fetch not in DATASETS:
            raise invalid_choice("The data set", fetch, DATASETS)
        with progress_line() as show:
            files = download(
                DATASETS[fetch], root, progress=lambda name, done, total: show(done, total or done, name)
            )
        for file in files:
            printer.say(f"{file}: {file_size(file.stat().st_size)}, as published.")
    if not root.is_dir():
        raise InputError(f"There is no data folder {root}.", "Name yours with --data-root.")
    rows = inventory(root)
    printer.table(
        ["set", "classes", "present", ""],
        [[r.name, r.classes, "yes" if r.present else "no", r.source or r.why_missing] for r in rows],
        right=(1,),
    )
    present = sum(r.present for r in rows)
    printer.say(f"{present} of {len(rows)} sets are present in {root}.")
    if own := custom_datasets(root):
        printer.say(f"Also there, to be used by name: {', '.join(own)}.")
    printer.document({"root": str(root), "sets": [vars(r) for r in rows], "own": own})


@app.command("recipes")
def recipes(as_json: Json = False) -> None:
    """List the experiments that come with the package."""
    from ..bench.recipe import load_recipe, recipe_names

    printer = Printer(as_json)
    found = [load_recipe(name) for name in recipe_names()]
    printer.table(
        ["recipe", "runs", "what"],
        [[name, len(r.runs()), r.title] for name, r in zip(recipe_names(), found, strict=True)],
        right=(1,),
    )
    printer.document(
        {
            "recipes": [
                {"name": n, "runs": len(r.runs()), "title": r.title}
                for n, r in zip(recipe_names(), found, strict=True)
            ]
        }
    )


@app.command("run")
def run(
    recipe: RecipeName,
    root: Root = Path("data"),
    out: Out = None,
    workers: Annotated[int, typer.Option(help="Processes of this machine.")] = 1,
    ray: Annotated[str | None, typer.Option(help="Address of a Ray cluster, or 'auto'.")] = None,
    threads: Threads = None,
    settings: Set = None,
    dataset: Annotated[list[str] | None, typer.Option(help="Only this set. May be repeated.")] = None,
    method: Annotated[list[str] | None, typer.Option(help="Only this method. May be repeated.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds 0 … N−1 instead of the recipe's.")] = None,
    as_json: Json = False,
) -> None:
    """Run an experiment; what is on file already is not repeated."""
    from ..bench.figures import require_matplotlib
    from ..bench.recipe import load_recipe
    from ..bench.report import write_report
    from ..bench.run import check_backbones
    from ..bench.sweep import SweepWorkers, run_sweep
    from ..bench.workers import LocalWorkers, RayWorkers

    printer = Printer(as_json)
    chosen = _choices(settings, dataset, method, seeds)
    what = load_recipe(recipe).with_choices(**chosen)
    if not root.is_dir():
        raise InputError(
            f"There is no data folder {root}.",
            "Name it with --data-root; 'fit bench data' says what it needs.",
        )
    folder = out or Path("bench") / what.name

    if what.figures:
        require_matplotlib()  # and not after hours of work

    def make_workers() -> SweepWorkers:
        if ray:
            return RayWorkers(ray, root, threads or 1)
        check_backbones(what.runs())
        return LocalWorkers(workers, root, threads)

    # Ray tells of the death of a machine on stdout, which belongs to the result.
    with progress(printer) as watch, redirect_stdout(sys.stderr):
        made = run_sweep(what.runs(), folder / "results.jsonl", make_workers, watch)
    for note in made.notes:
        printer.note(note)
    _tell(printer, what, made, write_report(what, made, folder), folder)
    if made.failures:
        raise typer.Exit(3)


@app.command("report")
def report(recipe: RecipeName, out: Out = None, settings: Set = None, as_json: Json = False) -> None:
    """Write the tables, figures and page again from the results on file."""
    from ..bench.recipe import load_recipe
    from ..bench.report import write_report
    from ..bench.results import read_results
    from ..bench.sweep import collect_rows

    printer = Printer(as_json)
    what = load_recipe(recipe).with_choices(**_choices(settings))
    folder = out or Path("bench") / what.name
    found = read_results(folder / "results.jsonl")
    for note in found.notes:
        printer.note(note)
    made = collect_rows(what.runs(), found)
    if not made.rows:
        raise InputError(
            f"{folder} has no results of {what.name}.", f"Make them with: fit bench run {recipe}"
        )
    _tell(printer, what, made, write_report(what, made, folder), folder)


def _tell(printer: Printer, what: Any, made: Any, files: list[Path], folder: Path) -> None:
    """The tables for people, everything for programs; a sweep with failures says so last."""
    for file in files:
        if file.suffix == ".md":
            printer.say(file.read_text(encoding="utf-8"))
    if files:
        printer.say(f"Wrote {folder}: {', '.join(file.name for file in files)}.")
    tell_failures(printer, made.failures)
    missing = len(what.runs()) - len(made.rows) - len(made.failures)
    if missing:
        printer.note(f"{missing} of {len(what.runs())} runs are not on file yet: fit bench run {what.name}")
    printer.document(
        {
            "recipe": what.name,
            "runs": len(what.runs()),
            "done": len(made.rows),
            "failures": made.failures,
            "files": [str(file) for file in files],
            "rows": made.rows,
        }
    )


def tell_failures(printer: Printer, failures: dict[str, str]) -> None:
    """Each reason once."""
    by_reason: dict[str, list[str]] = {}
    for run_name, reason in failures.items():
        by_reason.setdefault(reason, []).append(run_name)
    for reason, names in by_reason.items():
        printer.note(f"{len(names)} runs failed ({names[0]}{', …' if len(names) > 1 else ''}): {reason}")


def _choices(
    settings: list[str] | None,
    dataset: list[str] | None = None,
    method: list[str] | None = None,
    seeds: int | None = None,
) -> dict[str, Any]:
    """What was chosen by hand."""
    chosen = read_settings(settings, "backbone=efficientnet_lite0")
    if dataset:
        chosen["dataset"] = dataset
    if method:
        chosen["method"] = method
    if seeds is not None:
        if seeds < 1:
            raise UsageError(f"seeds cannot be {seeds}.", "It is a whole number of at least 1.")
        chosen["seed"] = list(range(seeds))
    return chosen


@contextmanager
def progress(printer: Printer) -> Iterator[Callable[[Any], None]]:
    """A bar over the whole sweep with the time left, and a line for every run that ends."""
    with progress_line() as show:

        def watch(progress: Any) -> None:
            left = progress.seconds_left
            until = f", about {duration(left)} left" if left else ""
            failed = f", {progress.failed} failed" if progress.failed else ""
            if progress.last:
                printer.err.print(
                    f"[{progress.done}/{progress.total}{failed}{until}] {progress.last}", markup=False
                )
            show(
                progress.done + progress.failed,
                progress.total,
                f"{percent(progress.done / max(progress.total, 1))}{until}",
            )

        yield watch
