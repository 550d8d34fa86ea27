"""fit bench orbit"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

from ..errors import UsageError, check_choice
from ..training.config import names
from .bench import Set, app, print_sweep, sweep_progress
from .printing import Backbone, Json, Printer, Threads
from .settings import read_settings

METHODS = "finetuner,protonets,fit-lda"
NOT_USED = {"train", "small_image_size", "train_size", "hold_out", "search_steps"}  # training settings

Rate = Annotated[
    float | None, typer.Option(help="Frames per second to use of video files; by default all of them.")
]


@app.command("orbit")
def orbit(
    root: Annotated[
        Path, typer.Option("--data-root", help="ORBIT's folder, or a folder of your own videos.")
    ],
    backbone: Backbone = "efficientnet_lite0",
    methods: Annotated[
        str,
        typer.Option(
            help="Comma-separated: finetuner, cnaps, protonets, frozen-lda, fit-lda, fit-qda, fit-protonets, bit."
        ),
    ] = METHODS,
    users: Annotated[int | None, typer.Option(help="Only this many users.")] = None,
    tasks: Annotated[int, typer.Option(help="Number of tasks per user.")] = 5,
    cnaps: Annotated[
        Path | None, typer.Option(help="The file of Simple CNAPs that 'fit bench cnaps train' wrote.")
    ] = None,
    mode: Annotated[str, typer.Option(help="The part of ORBIT: test, validation or train.")] = "test",
    rate: Rate = None,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for results and tables.")] = Path(
        "bench/orbit"
    ),
    workers: Annotated[int, typer.Option(help="Number of local processes.")] = 1,
    threads: Threads = None,
    settings: Set = None,
    as_json: Json = False,
) -> None:
    """Personalization on ORBIT: train on clean videos of a user's objects, and classify other videos.

    Runs that already have a result are not repeated.
    """
    from ..bench.orbit.personalization import prepare_method
    from ..bench.orbit.runs import OrbitExperiment
    from ..bench.orbit.tables import write_orbit
    from ..bench.orbit.tasks import OrbitProtocol
    from ..bench.sweep import run_sweep
    from ..bench.workers import LocalWorkers

    printer = Printer(as_json)
    chosen = read_settings(settings, "image_size=128")
    allowed = {*names()} - NOT_USED | {"weights", *(field.name for field in fields(OrbitProtocol))}
    for name in chosen:
        check_choice("A setting", name, sorted(allowed))
    options = [option.strip() for option in methods.split(",") if option.strip()]
    if not options:
        raise UsageError("No method was named.", f"Write --methods {METHODS}, for example.")
    experiment = OrbitExperiment(options, backbone, users, tasks, mode, rate, seed, cnaps, chosen)
    runs, notes = experiment.runs(root)
    printer.note(*notes)
    for run in {run.settings["method"]: run for run in runs}.values():
        prepare_method(run.settings)  # an error is reported now, and once
    with sweep_progress(printer) as on_progress:
        result = run_sweep(
            runs, out / "results.jsonl", lambda: LocalWorkers(workers, root, threads), on_progress
        )
    printer.note(*result.notes)
    files = write_orbit(result.rows, out) if result.rows else []
    print_sweep(printer, result, len(runs), files, out, {})
    if result.failures:
        raise typer.Exit(3)
