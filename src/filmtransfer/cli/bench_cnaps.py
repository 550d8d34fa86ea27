"""fit bench cnaps train"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError, UsageError, check_count
from ..formatting import duration, file_size, percent
from .bench import Root
from .bench import app as bench
from .bench_orbit import Rate
from .printing import Backbone, Json, Printer, Threads, command_group
from .progress import phases
from .settings import training_options

OPTIONS = ("steps", "learning_rate", "support_size", "max_query", "image_size", "micro_batch", "time_limit")
app = command_group("Simple CNAPs, the paper's meta-learned baseline.")
bench.add_typer(app, name="cnaps")


@app.callback()
def _cnaps() -> None:
    """Simple CNAPs, the paper's meta-learned baseline."""


@app.command("train")
@training_options(*OPTIONS)
def train(
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")],
    root: Root = Path("data"),
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
    _check_sizes(counts, held_out)
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
    with phases(as_json) as display:
        display.phase("meta-training")
        callbacks = Callbacks(on_step=display.on_step)
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
        _print_accuracies(printer, rows)
    printer.say(
        f"{history.steps} tasks in {duration(history.seconds)}; {generator.parameter_count():,} parameters in {out} "
        f"({file_size(size)})."
    )
    if history.stopped != "done":
        printer.note(f"Training stopped early: {history.stopped}.")
    document = {"file": str(out), "bytes": size, "numbers": generator.parameter_count()}
    printer.document({**document, **generator.results})


def _check_sizes(counts: Mapping[str, int], held_out: float) -> None:
    for name, value in counts.items():
        check_count(name, value)
    if not 0 < held_out < 1:
        raise UsageError(f"held-out cannot be {held_out}.", "It is a fraction between 0 and 1.")


def _print_accuracies(printer: Printer, rows: Sequence[Mapping[str, Any]]) -> None:
    printer.table(
        ["dataset", "classes", "tasks", "frozen", "generated", "gain"],
        [
            [
                r["set"], r["classes"], r["tasks"], percent(r["frozen"]), percent(r["generated"]),
                f"{100 * r['gain']:+.1f} ± {100 * r['interval']:.1f}",
            ]
            for r in rows
        ],
        right=(1, 2, 3, 4, 5),
    )  # fmt: skip
