"""fit evaluate FILE FOLDER"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError, UsageError
from ..formatting import accuracy_text, count, digits_for, percent
from .prediction import loaded_predictor, prepare_next
from .printing import Json, PredictionDevice, Printer, RuntimeOption, Strict, Threads, UpdateFile, Weights

if TYPE_CHECKING:
    from ..model.classification import Classified
    from ..predictor import Predictor
    from ..report.report_data import OODPhotos
    from ..training.assess.evaluation import Evaluation


def evaluate(
    file: UpdateFile,
    folder: Annotated[Path, typer.Argument(help="Labelled images: a folder per class, or a CSV.")],
    weights: Weights = None,
    strict: Strict = False,
    report: Annotated[Path | None, typer.Option(help="Write a report (HTML).")] = None,
    ood: Annotated[
        Path | None,
        typer.Option(
            "--ood",
            help="With --report: a folder of out-of-distribution images, which show none of the classes, "
            "to measure how many are rejected.",
        ),
    ] = None,
    former_ood: Annotated[
        Path | None, typer.Option("--strangers", hidden=True, help="The former name of --ood.")
    ] = None,
    device: PredictionDevice = "auto",
    runtime: RuntimeOption = "auto",
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Measure accuracy on labelled images."""
    import numpy as np

    from ..data import LabelledImages
    from ..files import check_folder, check_writable
    from ..predictor import check_known
    from ..report import PhotoRecorder, collect_test, write_report
    from ..training.assess.evaluation import evaluate as compare

    printer = Printer(as_json)
    ood = ood or former_ood
    if report is not None:
        check_writable(report)
    elif ood is not None:
        raise UsageError("--ood needs a report.", "Say where to write it: --report FILE")
    if ood is not None:
        check_folder(ood)
    images = LabelledImages.from_path(folder)
    recorder = PhotoRecorder()
    on_images = recorder.on_images if report is not None else None
    loaded = loaded_predictor(printer, file, runtime=runtime, weights=weights, device=device, threads=threads)
    with loaded as (clf, display):
        classes = [str(name) for name in clf.update_.classes]
        check_known([str(name) for name in images.classes], classes)
        printer.note(*images.warnings)
        display.phase(f"classifying {count(len(images), 'photo')}")
        classified = clf.classify(images.sources, strict=strict, on_images=on_images)
    labels = np.array([classes.index(str(images.classes[images.labels[i]])) for i in classified.readable])
    result = compare(classified.predictions.labels, labels, len(classes))
    _print_accuracy(printer, result, classes)
    printer.skipped(classified.skipped)
    if report is not None:
        others = None if ood is None else _out_of_distribution(clf, ood, classified)
        write_report(report, collect_test(clf, recorder, labels, classified, file, others))
        printer.say(f"Wrote {report}. Open it in a browser.")
    printer.document(
        {
            **({} if report is None else {"report": str(report)}),
            "accuracy": result.accuracy,
            "interval": [result.low, result.high],
            "images": result.images,
            "classes": classes,
            "confusion": result.confusion.tolist(),
            "skipped": [s.to_dict() for s in classified.skipped],
            "runtime": clf.runtime,
        }
    )
    prepare_next(printer, clf, runtime, weights)


def _print_accuracy(printer: Printer, result: Evaluation, classes: list[str]) -> None:
    """Print the accuracy, and for each class its accuracy and the class it is most often confused with."""
    printer.say(f"Accuracy on {count(result.images, 'photo')}: {accuracy_text(result)}.")
    rows, digits = [], digits_for(result.images)
    for c, (name, accuracy) in enumerate(zip(classes, result.by_class(), strict=True)):
        errors = result.confusion[c].copy()
        errors[c] = 0
        worst = int(errors.argmax())
        confused = f"{classes[worst]} ({int(errors[worst])})" if int(errors.sum()) else ""
        shown = "–" if accuracy is None else percent(accuracy, digits)
        rows.append([name, int(result.confusion[c].sum()), shown, confused])
    printer.table(["class", "photos", "accuracy", "most often confused with"], rows, right=(1, 2))


def _out_of_distribution(clf: Predictor, folder: Path, test: Classified) -> OODPhotos:
    """Classify out-of-distribution images for the report."""
    from ..data.images import find_images
    from ..report import PhotoRecorder, collect_ood

    sources = find_images(folder)
    if not sources:
        raise InputError(f"No images in {folder}.", "Give a folder of images of none of the classes.")
    recorder = PhotoRecorder()
    return collect_ood(clf, recorder, clf.classify(sources, on_images=recorder.on_images), test)
