"""fit train FOLDER --out FILE"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UsageError
from ..formatting import count, file_size, percent
from .printing import Backbone, Device, Json, Printer, Strict, Threads, as_typed, is_first_process
from .progress import phases
from .settings import read_table, training_options

if TYPE_CHECKING:
    from ..estimator import FewShotClassifier
    from ..model.metadata import JsonTable
    from ..training.profiler import Profiler


@training_options()
def train(
    folder: Annotated[
        Path, typer.Argument(help="A folder with one subfolder per class, or a CSV: path,label.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The update file to write (.safetensors).")],
    backbone: Backbone = "efficientnet_lite0",
    weights: Annotated[str | None, typer.Option(help="Weights file for the backbone.")] = None,
    head: Annotated[str, typer.Option(help="lda, qda, protonets, linear, cosine or mahalanobis.")] = "lda",
    head_options: Annotated[
        Any,
        typer.Option(
            help="Options of the head, as in '{start = \"paper\"}'.", parser=read_table, metavar="TOML"
        ),
    ] = None,
    preset: Annotated[
        str, typer.Option(help="fast, paper, or another of the paper's settings (docs/presets.md).")
    ] = "fast",
    prior: Annotated[str, typer.Option(help="uniform or empirical class frequencies.")] = "uniform",
    seed: Annotated[int, typer.Option(help="Everything random follows from it.")] = 0,
    strict: Strict = False,
    keep_statistics: Annotated[
        bool,
        typer.Option(
            "--keep-statistics/--compact",
            help="Keep the features of the photos in the file, to edit and explain it; or write a smaller file.",
        ),
    ] = True,
    report_to: Annotated[
        Path | None,
        typer.Option(
            "--report", help="The report to write (HTML); by default NAME.report.html beside the update."
        ),
    ] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    device: Device = "auto",
    precision: Annotated[
        str, typer.Option(help="float32, or bfloat16 for the backbone where the hardware can.")
    ] = "float32",
    compile: Annotated[
        bool, typer.Option("--compile", help="Compile the backbone; pays on long runs of some backbones.")
    ] = False,
    threads: Threads = None,
    profile: Annotated[bool, typer.Option("--profile", help="Print where the time of a step goes.")] = False,
    as_json: Json = False,
    **settings: Any,
) -> None:
    """Train a classifier on a folder of photos.

    Training settings that are not given are those of the preset.

    Several GPUs: torchrun --nproc-per-node N -m filmtransfer train FOLDER --out FILE
    """
    from ..data import LabelledImages, check_headers
    from ..files import check_writable
    from ..model.hardware_names import check_hardware_names
    from ..training.phases import loading
    from ..training.validation import check_settings, training_config

    # What a user can have mistyped is checked before torch is imported (but for a timm model's name).
    check_hardware_names(device, precision, threads)
    check_writable(out)
    page = None if no_report else _report_target(out, report_to)
    images = LabelledImages.from_path(folder)
    check_headers(images)
    check_settings(backbone, weights, head, head_options, as_typed(prior))
    training_config(preset, head, settings)

    first = is_first_process()
    printer = Printer(as_json, quiet=not first)
    with phases(quiet=not first) as display:
        display.phase(loading(backbone))
        from ..estimator import FewShotClassifier
        from ..report import PhotoRecorder, collect_training, write_report
        from ..runtime.extractor import prepare_predictions
        from ..training.callbacks import Callbacks
        from ..training.finetune.parallel import launched, local_size
        from ..training.profiler import Profiler
        from ..training.torch_settings import configure_process

        configure_process(threads, local_size())
        clf = FewShotClassifier(
            backbone, as_typed(head), head_options=head_options, seed=seed, preset=as_typed(preset), prior=as_typed(prior),
            weights=weights, strict=strict, keep_statistics=keep_statistics, device=as_typed(device), precision=as_typed(precision), compile=compile,
            **{name: value for name, value in settings.items() if value is not None},
        )  # fmt: skip
        profiler, recorder = Profiler(enabled=profile), PhotoRecorder()
        with launched():
            on_fitted = recorder.on_training if first and page is not None else None
            with printer.notes():
                clf.fit_images(images, Callbacks(display.on_step, on_fitted, profiler, display.phase))
            if not first:
                return
            display.phase("writing")
            written = clf.save(out)
            _print_training(printer, clf, out, written)
            if page is not None:
                write_report(page, collect_training(clf, recorder, out))
                printer.say(f"Wrote {page}: the report on photos and accuracy. Open it in a browser.")
            if profiler.enabled:
                _print_profile(printer, profiler)
            printer.document(_document(clf, out, written, page, profiler))
            display.phase("preparing fast predictions")
            with printer.notes(), _complete(printer):
                prepare_predictions(clf.model_, weights)


@contextmanager
def _complete(printer: Printer) -> Iterator[None]:
    """Say at Ctrl-C that nothing is missing of the classifier."""
    try:
        yield
    except KeyboardInterrupt:
        printer.note("the classifier is complete; the first prediction will prepare the backbone")
        raise


def _report_target(out: Path, chosen: Path | None) -> Path:
    """Return where the report is written; raise an error if it cannot be."""
    from ..files import check_writable, report_path

    page = chosen or report_path(out)
    check_writable(page)
    if page.resolve() == out.resolve():
        raise UsageError("Report and update cannot be the same file.", "Give the report another name.")
    return page


def _print_training(printer: Printer, clf: FewShotClassifier, out: Path, written: int) -> None:
    """Print what was trained, and what the file holds."""
    from ..model import describe_estimate
    from ..training.finetune.outcome import INTERPOLATION, describe_stop

    history, update = clf.history_, clf.update_
    photos = count(sum(update.counts), "photo")
    printer.say(f"{len(update.classes)} classes, {photos}; head {update.head} on {update.backbone}.")
    printer.skipped(clf.skipped_)
    interpolated = history.steps and clf.model_.head.trained_by == "episodes"
    factor = f" {INTERPOLATION[update.results['share']]}" if interpolated else ""
    stopped = describe_stop(history.stopped, history.steps)
    if history.steps:
        steps = count(history.steps, "step")
        printer.say(f"Fine-tuned {steps} in {history.seconds:.0f} s{stopped}.{factor}")
    else:
        printer.say(f"No fine-tuning{stopped}: the backbone is as it was pretrained.")
    printer.say(describe_estimate(update.estimate))
    printer.say(f"Wrote {out}: {file_size(written)}, {update.stored_parameters():,} parameters.")
    if update.support is not None:
        compact = file_size(len(update.compact().to_bytes()))
        printer.say(
            f"It keeps the features and names of {photos}, so that it can be edited and explained; "
            f"'fit edit strip' makes it {compact} before you share it."
        )


def _document(
    clf: FewShotClassifier, out: Path, written: int, page: Path | None, profiler: Profiler
) -> JsonTable:
    """Return the JSON document of a training run; "numbers" is the former name of "parameters"."""
    history, update = clf.history_, clf.update_
    return {
        "file": str(out),
        "bytes": written,
        "compact_bytes": len(update.compact().to_bytes()),
        "report": None if page is None else str(page),
        "parameters": update.stored_parameters(),
        "numbers": update.stored_parameters(),
        "classes": dict(zip([str(c) for c in update.classes], update.counts, strict=True)),
        "backbone": update.backbone,
        "head": update.head,
        "steps": history.steps,
        "stopped": history.stopped,
        "seconds": round(history.seconds, 2),
        "results": update.results,
        "skipped": [s.to_dict() for s in clf.skipped_],
        **({"profile": profiler.to_dict()} if profiler.enabled else {}),
    }


def _print_profile(printer: Printer, profiler: Profiler) -> None:
    """Print the time of a step by phase and by kind of operation, and of what is done once."""
    seconds = profiler.to_dict()
    printer.say()
    for title, part in (("a step, by phase", "by_phase"), ("one step, by kind of operation", "by_kind")):
        total = sum(seconds[part].values())
        if total:
            rows = [[name, f"{1000 * s:.1f}", percent(s / total)] for name, s in seconds[part].items()]
            printer.table([title, "ms", "share"], [*rows, ["total", f"{1000 * total:.1f}", ""]], right=(1, 2))
            printer.say()
    printer.table(["once", "s"], [[name, f"{s:.2f}"] for name, s in seconds["once"].items()], right=(1,))
