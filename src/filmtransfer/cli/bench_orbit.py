"""fit bench orbit · fit bench cnaps train"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError, UsageError
from ..formatting import duration, file_size, percent
from ..training.config import names
from .bench import Set, progress, tell_failures
from .printing import Json, Printer, Threads, progress_bar
from .settings import read_settings, training_options

METHODS = "finetuner,protonets,fit-lda"
# What --set takes: the training settings that ORBIT's protocol uses, and the protocol's own.
SETTINGS = {*names()} - {"train", "small_image_size", "train_size", "hold_out", "search_steps"} | {
    "weights", "clip_length", "clips_per_video", "videos_per_object", "clean_to_learn", "present_only",
}  # fmt: skip

Backbone = Annotated[str, typer.Option(help="The backbone ('fit backbones' lists them).")]
Rate = Annotated[
    float | None, typer.Option(help="Frames a second to take of video files; by default all of them.")
]


def orbit(
    root: Annotated[Path, typer.Option("--data-root", help="ORBIT's folder, or one of videos of your own.")],
    backbone: Backbone = "efficientnet_lite0",
    methods: Annotated[
        str,
        typer.Option(
            help="Of finetuner, cnaps, protonets, frozen-lda, fit-lda, fit-qda, fit-protonets, bit; commas between."
        ),
    ] = METHODS,
    users: Annotated[int | None, typer.Option(help="Only the first so many users.")] = None,
    tasks: Annotated[int, typer.Option(help="Tasks for each user.")] = 5,
    cnaps: Annotated[
        Path | None, typer.Option(help="Simple CNAPs, as written by 'fit bench cnaps train'.")
    ] = None,
    mode: Annotated[str, typer.Option(help="The part of ORBIT: test, validation or train.")] = "test",
    rate: Rate = None,
    seed: Annotated[int, typer.Option(help="Everything random follows from it.")] = 0,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for results and tables.")] = Path(
        "bench/orbit"
    ),
    workers: Annotated[int, typer.Option(help="Processes of this machine.")] = 1,
    threads: Threads = None,
    settings: Set = None,
    as_json: Json = False,
) -> None:
    """Personalization on ORBIT: learn from clean videos of a user's objects, be asked for others.

    What is on file already is not repeated.
    """
    from ..bench.orbit.personalization import prepare_method
    from ..bench.orbit.tables import orbit_runs, write_orbit
    from ..bench.sweep import run_sweep
    from ..bench.workers import LocalWorkers

    printer = Printer(as_json)
    chosen = read_settings(settings, "image_size=128")
    if unknown := sorted(chosen.keys() - SETTINGS):
        raise UsageError(
            f"A setting cannot be {unknown[0]!r}.", f"Choose one of: {', '.join(sorted(SETTINGS))}."
        )
    words = [word.strip() for word in methods.split(",") if word.strip()]
    if not words:
        raise UsageError("No method was named.", f"As in --methods {METHODS}.")
    runs, notes = orbit_runs(
        root, words, backbone=backbone, users=users, tasks=tasks, mode=mode, rate=rate, seed=seed,
        cnaps=cnaps, settings=chosen,
    )  # fmt: skip
    for note in notes:
        printer.note(note)
    for run in {run.settings["method"]: run for run in runs}.values():
        prepare_method(run.settings)  # a mistake is said now, and once
    with progress(printer) as watch:
        made = run_sweep(runs, out / "results.jsonl", lambda: LocalWorkers(workers, root, threads), watch)
    for note in made.notes:
        printer.note(note)
    files = write_orbit(made.rows, out) if made.rows else []
    for file in files:
        if file.suffix == ".md":
            printer.say(file.read_text(encoding="utf-8"))
    tell_failures(printer, made.failures)
    if files:
        printer.say(f"Wrote {out}: {', '.join(file.name for file in files)}.")
    printer.document(
        {
            "runs": len(runs),
            "done": len(made.rows),
            "failures": made.failures,
            "files": [str(file) for file in files],
            "rows": made.rows,
        }
    )
    if made.failures:
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
    root: Annotated[Path, typer.Option("--data-root", help="The folder that holds the image sets.")] = Path(
        "data"
    ),
    dataset: Annotated[list[str] | None, typer.Option(help="An image set. May be repeated.")] = None,
    orbit_root: Annotated[
        Path | None, typer.Option("--orbit", help="ORBIT's folder, for the users of its train part.")
    ] = None,
    backbone: Backbone = "efficientnet_lite0",
    weights: Annotated[str | None, typer.Option(help="A weights file for the backbone.")] = None,
    classes: Annotated[int, typer.Option(help="At most so many classes of a set.")] = 60,
    images: Annotated[int, typer.Option(help="At most so many images of a class.")] = 20,
    held_out: Annotated[float, typer.Option(help="Share of the classes to test on.")] = 0.3,
    test_tasks: Annotated[int, typer.Option(help="Tasks of held-out classes to test on, of each set.")] = 20,
    rate: Rate = None,
    seed: Annotated[int, typer.Option(help="Everything random follows from it.")] = 0,
    threads: Threads = None,
    as_json: Json = False,
    **settings: Any,
) -> None:
    """Meta-train the set encoder and the FiLM generators; test them on classes that they have not seen."""
    from ..backbones import load_backbone
    from ..bench.cnaps.film_generator import CNAPs
    from ..bench.cnaps.meta_training import META_TRAINING, PENALTY, bare_model, compare, meta_train
    from ..bench.cnaps.task_sources import class_sources, spec_of, user_sources
    from ..bench.datasets import load_dataset
    from ..files import check_writable
    from ..training.torch_settings import prepare

    printer = Printer(as_json)
    check_writable(out)
    config = META_TRAINING.override(**settings)
    whole = {"steps": config.steps or 0, "classes": classes, "images": images, "test-tasks": test_tasks}
    for name, value in whole.items():
        if value < 1:
            raise UsageError(f"{name} cannot be {value}.", "It is a whole number of at least 1.")
    if not 0 < held_out < 1:
        raise UsageError(f"held-out cannot be {held_out}.", "It is a fraction between 0 and 1.")
    if not dataset and orbit_root is None:
        raise InputError("There is nothing to meta-train on.", "Name a set with --dataset, or --orbit DIR.")
    prepare(threads)
    found = load_backbone(backbone, weights)
    spec = spec_of(found, config.image_size)
    sources, tested = [], []
    for name in dataset or []:
        learn, test = class_sources(
            name, load_dataset(name, root), spec, classes=classes, images=images, held_out=held_out, seed=seed
        )
        sources.append(learn)
        tested.append(test)
    if orbit_root is not None:
        sources += user_sources(orbit_root, spec, rate=rate, seed=seed)
    made = CNAPs(found, seed=seed)
    model = bare_model(found, spec.size)
    with progress_bar(as_json) as watch:
        history = meta_train(made, model, sources, config, seed=seed, watch=watch)
    rows = [compare(made, model, source, config, test_tasks, seed) for source in tested]
    made.results = {
        "sources": [source.name for source in sources],
        "settings": config.to_dict() | {"image_size": spec.size, "penalty": PENALTY, "seed": seed},
        "steps": history.steps,
        "stopped": history.stopped,
        "seconds": round(history.seconds, 1),
        "held_out": rows,
    }
    content = made.save(out)
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
        f"{history.steps} tasks in {duration(history.seconds)}; {made.numbers():,} numbers in {out} ({file_size(content)})."
    )
    if history.stopped != "done":
        printer.note(f"Training stopped early: {history.stopped}.")
    document: dict[str, Any] = {"file": str(out), "bytes": content, "numbers": made.numbers()}
    printer.document(document | made.results)
