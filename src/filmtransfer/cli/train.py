"""fit train FOLDER --out FILE"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import UsageError
from ..formatting import file_size, percent
from .printing import Device, Json, Printer, Threads, progress_bar
from .settings import training_options


@training_options()
def train(
    folder: Annotated[
        Path, typer.Argument(help="A folder with one subfolder per class, or a CSV: path,label.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The update file to write (.safetensors).")],
    backbone: Annotated[
        str, typer.Option(help="Pretrained backbone; see 'fit backbones'.")
    ] = "efficientnet_lite0",
    weights: Annotated[str | None, typer.Option(help="Weights file for the backbone.")] = None,
    head: Annotated[str, typer.Option(help="lda, qda, protonets or linear.")] = "lda",
    preset: Annotated[
        str, typer.Option(help="fast, paper, or another of the paper's settings (docs/presets.md).")
    ] = "fast",
    prior: Annotated[str, typer.Option(help="uniform or empirical class frequencies.")] = "uniform",
    seed: Annotated[int, typer.Option(help="Everything random follows from it.")] = 0,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse unreadable images.")] = False,
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
    profile: Annotated[bool, typer.Option("--profile", help="Say where the time of a step goes.")] = False,
    as_json: Json = False,
    **settings: Any,
) -> None:
    """Train a classifier on a folder of photos.

    Training settings that are not given are those of the preset.

    Several GPUs: torchrun --nproc-per-node N -m filmtransfer train ...
    """
    from ..data import LabelledImages
    from ..estimator import FewShotClassifier
    from ..files import check_writable
    from ..report import PhotoRecorder, collect_training, write_report
    from ..training.finetune.parallel import launched, local_size
    from ..training.profiler import Profile
    from ..training.torch_settings import prepare

    check_writable(out)
    page = None if no_report else report_to or beside(out)
    if page is not None:
        check_writable(page)
        if page.resolve() == out.resolve():
            raise UsageError("The report would take the place of the update.", "Give it another name.")
    prepare(threads, local_size())
    clf = FewShotClassifier(
        backbone, head, seed=seed, preset=preset, prior=prior, weights=weights, strict=strict,
        keep_statistics=keep_statistics, device=device, precision=precision, compile=compile,
        **{name: value for name, value in settings.items() if value is not None},
    )  # fmt: skip
    clock, recorder = Profile(on=profile), PhotoRecorder()
    with launched() as world:
        first = world.rank == 0
        printer = Printer(as_json, quiet=not first)
        with printer.notes(), progress_bar(quiet=not first) as watch:
            look = recorder.on_training if first and page is not None else None
            clf.fit_images(LabelledImages.from_path(folder), watch, clock, look)
        if first:
            written = clf.save(out)
            if page is not None:
                write_report(page, collect_training(clf, recorder, out))
            report(printer, clf, out, written, clock, page)


def beside(out: Path) -> Path:
    """Where the report goes: pets.safetensors has pets.report.html."""
    return out.with_name(f"{out.stem if out.suffix == '.safetensors' else out.name}.report.html")


def report(printer: Printer, clf: Any, out: Path, written: int, clock: Any, page: Path | None) -> None:
    """What was learned, in words and as a document."""
    history, update = clf.history_, clf.update_
    images = sum(update.counts)
    printer.say(
        f"{len(update.classes)} classes, {images} images, {update.head.upper()} on {update.backbone}."
    )
    for skipped in clf.skipped_:
        printer.say(f"  left out: {skipped.name}: {skipped.reason}")
    why = {
        "done": "",
        "interrupted": " (stopped by you; the best so far is kept)",
        "time limit": " (time limit)",
        "not finite": " (the loss was not finite any more; the last good numbers are kept)",
        "one-shot": " (one image per class: nothing to fine-tune on)",
    }[history.stopped]
    kept = {
        0.0: " None of the move is kept: held-out photos spoke against it.",
        0.5: " Half of the move is kept, which is safest with few photos.",
        1.0: " All of the move is kept.",
    }
    took = kept[update.results["share"]] if history.steps and update.head != "linear" else ""
    printer.say(f"Fine-tuned {history.steps} steps in {history.seconds:.0f} s{why}.{took}")
    printer.say(estimated(update.results.get("estimate")))
    printer.say(f"Wrote {out}: {file_size(written)}, {update.stored_parameters():,} numbers.")
    if page is not None:
        printer.say(f"Wrote {page}: what to improve, and how good it is. Open it in a browser.")
    if clock.on:
        _where_time_goes(printer, clock)
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
            **({"profile": clock.to_dict()} if clock.on else {}),
        }
    )


def estimated(estimate: dict[str, Any] | None) -> str:
    """How good it will be on new images like these, as far as the training images can tell."""
    if estimate is None:
        return "No estimate of its accuracy: no class has a photo to spare. Try it with 'fit evaluate'."
    figure = f"{percent(estimate['accuracy'])} (95% interval {percent(estimate['low'])} to {percent(estimate['high'])})"
    if not estimate["unseen"]:
        return f"Accuracy on left-out photos {figure}; fine-tuning has seen them, so new photos will do less well."
    return (
        f"Estimated accuracy on new photos {figure}, from {estimate['images']} photos left out of training."
    )


def _where_time_goes(printer: Printer, clock: Any) -> None:
    """What --profile prints: the phases of a step, then its arithmetic."""
    seen = clock.to_dict()
    printer.say()
    for title, part in (("a step, by phase", "by_phase"), ("one step, by kind of arithmetic", "by_kind")):
        whole = sum(seen[part].values())
        if whole:
            rows = [[name, f"{1000 * s:.1f}", percent(s / whole)] for name, s in seen[part].items()]
            printer.table(
                [title, "ms", "share"], [*rows, ["together", f"{1000 * whole:.1f}", ""]], right=(1, 2)
            )
            printer.say()
    printer.table(["done once", "s"], [[k, f"{s:.2f}"] for k, s in seen["once"].items()], right=(1,))
