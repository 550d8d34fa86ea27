"""fit bench orbit · fit bench cnaps train"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError, UsageError
from ..formatting import duration, file_size, percent
from ..training.config import names
from .bench import Set, print_failures, sweep_progress
from .printing import Json, Printer, Threads, progress_bar
from .settings import read_settings, training_options

METHODS = "finetuner,protonets,fit-lda"
# The settings of --set: the training settings that ORBIT uses, and those of its protocol.
SETTINGS = {*names()} - {"train", "small_image_size", "train_size", "hold_out", "search_steps"} | {
    "weights", "clip_length", "clips_per_video", "videos_per_object", "clean_to_learn", "present_only",
}  # fmt: skip

Backbone = Annotated[str, typer.Option(help="The backbone ('fit backbones' lists them).")]
Rate = Annotated[
    float | None, typer.Option(help="Frames per second to use of video files; by default all of them.")
]


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
    from ..bench.sweep import run_sweep
    from ..bench.workers import LocalWorkers

    printer = Printer(as_json)
    chosen = read_settings(settings, "image_size=128")
    if unknown := sorted(chosen.keys() - SETTINGS):
        raise UsageError(
            f"A setting cannot be {unknown[0]!r}.", f"Choose one of: {', '.join(sorted(SETTINGS))}."
        )
    names = [name.strip() for name in methods.split(",") if name.strip()]
    if not names:
        raise UsageError("No method was named.", f"Write --methods {METHODS}, for example.")
    experiment = OrbitExperiment(names, backbone, users, tasks, mode, rate, seed, cnaps, chosen)
    runs, notes = experiment.runs(root)
    for note in notes:
        printer.note(note)
    for run in {run.settings["method"]: run for run in runs}.values():
        prepare_method(run.settings)  # an error is reported now, and once
    with sweep_progress(printer) as on_progress:
        result = run_sweep(
            runs, out / "results.jsonl", lambda: LocalWorkers(workers, root, threads), on_progress
        )
    for note in result.notes:
        printer.note(note)
    files = write_orbit(result.rows, out) if result.rows else []
    for file in files:
        if file.suffix == ".md":
            printer.say(file.read_text(encoding="utf-8"))
    print_failures(printer, result.failures)
    if files:
        printer.say(f"Wrote {out}: {', '.join(file.name for file in files)}.")
    printer.document(
        {
            "runs": len(runs),
            "done": len(result.rows),
            "failures": result.failures,
            "files": [str(file) for file in files],
            "rows": result.rows,
        }
    )
    if result.failures:
        raise typer.Exit(3)


OPTIONS = ("steps", "learning_rate", "support_size", "max_query", "image_size", "micro_batch", "time_limit")
cnaps_app = typer.Typer(
    help="Simple CNAPs, the paper's meta-learned baseline.", no_args_is_help=True, rich_markup_mode=None
)


@cnaps_app.callback()
def _cnaps() -> None:
    """Simple CNAPs, the paper's meta-learned baseline."""


@cnaps_app.command("train")
@training_options(*OPTIONS)
def train(
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")],
    root: Annotated[Path, typer.Option("--data-root", help="The folder with the datasets.")] = Path("data"),
    dataset: Annotated[list[str] | None, typer.Option(help="A dataset to train on. May be repeated.")] = None,
    orbit_root: Annotated[
        Path | None, typer.Option("--orbit", help="ORBIT's folder, for the users of its train part.")
    ] = None,
    backbone: Backbone = "efficientnet_lite0",
    weights: Annotated[str | None, typer.Option(help="A weights file for the backbone.")] = None,
    classes: Annotated[int, typer.Option(help="Classes of a dataset, at most.")] = 60,
    images: Annotated[int, typer.Option(help="Images of a class, at most.")] = 20,
    held_out: Annotated[float, typer.Option(help="Fraction of the classes to test on.")] = 0.3,
    test_tasks: Annotated[int, typer.Option(help="Test tasks of held-out classes, per dataset.")] = 20,
    rate: Rate = None,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    threads: Threads = None,
    as_json: Json = False,
    **settings: Any,
) -> None:
    """Meta-train the set encoder and the FiLM generators, and test them on held-out classes."""
    from ..backbones import load_backbone
    from ..bench.cnaps.film_generator import CNAPs
    from ..bench.cnaps.meta_training import META_TRAINING, PENALTY, bare_model, compare, meta_train
    from ..bench.cnaps.task_sources import class_sources, pixel_spec, user_sources
    from ..bench.datasets import load_dataset
    from ..files import check_writable
    from ..training.callbacks import Callbacks
    from ..training.torch_settings import configure_process

    printer = Printer(as_json)
    check_writable(out)
    config = META_TRAINING.override(**settings)
    counts = {"steps": config.steps or 0, "classes": classes, "images": images, "test-tasks": test_tasks}
    for name, value in counts.items():
        if value < 1:
            raise UsageError(f"{name} cannot be {value}.", "It is a whole number of at least 1.")
    if not 0 < held_out < 1:
        raise UsageError(f"held-out cannot be {held_out}.", "It is a fraction between 0 and 1.")
    if not dataset and orbit_root is None:
        raise InputError(
            "There is nothing to meta-train on.", "Name a dataset with --dataset, or use --orbit DIR."
        )
    configure_process(threads)
    loaded = load_backbone(backbone, weights)
    spec = pixel_spec(loaded, config.image_size)
    sources, test_sources = [], []
    for name in dataset or []:
        train_source, test_source = class_sources(
            name, load_dataset(name, root), spec, classes=classes, images=images, held_out=held_out, seed=seed
        )
        sources.append(train_source)
        test_sources.append(test_source)
    if orbit_root is not None:
        sources += user_sources(orbit_root, spec, rate=rate, seed=seed)
    generator = CNAPs(loaded, seed=seed)
    model = bare_model(loaded, spec.size)
    with progress_bar(as_json) as on_step:
        callbacks = Callbacks(on_step=on_step)
        history = meta_train(generator, model, sources, config, seed=seed, callbacks=callbacks)
    rows = [compare(generator, model, source, config, test_tasks, seed) for source in test_sources]
    generator.results = {
        "sources": [source.name for source in sources],
        "settings": config.to_dict() | {"image_size": spec.size, "penalty": PENALTY, "seed": seed},
        "steps": history.steps,
        "stopped": history.stopped,
        "seconds": round(history.seconds, 1),
        "held_out": rows,
    }
    size = generator.save(out)
    if rows:
        printer.table(
            ["set", "classes", "tasks", "frozen", "generated", "gain"],
            [
                [
                    r["set"], r["classes"], r["tasks"], percent(r["frozen"]), percent(r["generated"]),
                    f"{100 * r['gain']:+.1f} ± {100 * r['interval']:.1f}",
                ]
                for r in rows
            ],
            right=(1, 2, 3, 4, 5),
        )  # fmt: skip
    printer.say(
        f"{history.steps} tasks in {duration(history.seconds)}; {generator.parameter_count():,} parameters in {out} "
        f"({file_size(size)})."
    )
    if history.stopped != "done":
        printer.note(f"Training stopped early: {history.stopped}.")
    document = {"file": str(out), "bytes": size, "numbers": generator.parameter_count()}
    printer.document({**document, **generator.results})
