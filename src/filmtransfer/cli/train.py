"""fit train FOLDER --out FILE"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UsageError
from ..formatting import file_size, percent
from .printing import Backbone, Device, Json, Printer, Strict, Threads, progress_bar
from .settings import read_table, training_options

if TYPE_CHECKING:
    from ..estimator import FewShotClassifier
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
        typer.Option("--keep-statistics", help="Keep the support features in the file, to edit it later."),
    ] = False,
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

    Several GPUs: torchrun --nproc-per-node N -m filmtransfer train ...
    """
    from ..data import LabelledImages
    from ..files import check_writable

    check_writable(out)
    page = None if no_report else report_to or _report_path(out)
    if page is not None:
        check_writable(page)
        if page.resolve() == out.resolve():
            raise UsageError("Report and update cannot be the same file.", "Give the report another name.")
    images = LabelledImages.from_path(folder)  # an error before torch is imported

    from ..estimator import FewShotClassifier
    from ..report import PhotoRecorder, collect_training, write_report
    from ..runtime.extractor import prepare_predictions
    from ..training.callbacks import Callbacks
    from ..training.finetune.parallel import launched, local_size
    from ..training.profiler import Profiler
    from ..training.torch_settings import configure_process

    configure_process(threads, local_size())
    clf = FewShotClassifier(
        backbone, head, head_options=head_options, seed=seed, preset=preset, prior=prior, weights=weights, strict=strict,
        keep_statistics=keep_statistics, device=device, precision=precision, compile=compile,
        **{name: value for name, value in settings.items() if value is not None},
    )  # fmt: skip
    profiler, recorder = Profiler(enabled=profile), PhotoRecorder()
    with launched() as world:
        first = world.rank == 0
        printer = Printer(as_json, quiet=not first)
        with printer.notes(), progress_bar(quiet=not first) as on_step:
            on_fitted = recorder.on_training if first and page is not None else None
            clf.fit_images(images, Callbacks(on_step, on_fitted, profiler))
        if first:
            written = clf.save(out)
            if page is not None:
                write_report(page, collect_training(clf, recorder, out))
            with printer.notes():
                prepare_predictions(clf.model_, weights)
            _print_result(printer, clf, out, written, profiler, page)


def _report_path(out: Path) -> Path:
    """Return the path of the report: pets.safetensors has pets.report.html."""
    return out.with_name(f"{out.stem if out.suffix == '.safetensors' else out.name}.report.html")


def _print_result(
    printer: Printer, clf: FewShotClassifier, out: Path, written: int, profiler: Profiler, page: Path | None
) -> None:
    """Print what was trained, in words and as a document."""
    from ..training.finetune.outcome import INTERPOLATION, STOPPED

    history, update = clf.history_, clf.update_
    printer.say(
        f"{len(update.classes)} classes, {sum(update.counts)} images; head {update.head} on {update.backbone}."
    )
    printer.skipped(clf.skipped_)
    interpolated = history.steps and clf.model_.head.trained_by == "episodes"
    factor = f" {INTERPOLATION[update.results['share']]}" if interpolated else ""
    printer.say(
        f"Fine-tuned {history.steps} steps in {history.seconds:.0f} s{STOPPED[history.stopped]}.{factor}"
    )
    printer.say(_describe_estimate(update.results.get("estimate")))
    printer.say(f"Wrote {out}: {file_size(written)}, {update.stored_parameters():,} parameters.")
    if page is not None:
        printer.say(f"Wrote {page}: the report on photos and accuracy. Open it in a browser.")
    if profiler.enabled:
        _print_profile(printer, profiler)
    printer.document(
        {
            "file": str(out),
            "bytes": written,
            "report": None if page is None else str(page),
            "numbers": update.stored_parameters(),
            "classes": dict(zip([str(c) for c in update.classes], update.counts, strict=True)),
            "backbone": update.backbone,
            "head": update.head,
            "steps": history.steps,
            "stopped": history.stopped,
            "seconds": round(history.seconds, 2),
            "results": update.results,
            "skipped": [{"image": s.name, "reason": s.reason} for s in clf.skipped_],
            **({"profile": profiler.to_dict()} if profiler.enabled else {}),
        }
    )


def _describe_estimate(estimate: Mapping[str, Any] | None) -> str:
    """Return what the training images tell about the accuracy on new images."""
    if estimate is None:
        return "No estimate of the accuracy: no class has a photo to spare. Try 'fit evaluate'."
    figure = f"{percent(estimate['accuracy'])} (95% interval {percent(estimate['low'])} to {percent(estimate['high'])})"
    if not estimate["unseen"]:
        return (
            f"Leave-one-out accuracy {figure}; fine-tuning has seen these photos, so expect less on new ones."
        )
    return (
        f"Estimated accuracy on new photos {figure}, from {estimate['images']} photos held out of training."
    )


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
