"""fit demo"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..formatting import file_size, percent
from .printing import Json, Printer, progress_bar

if TYPE_CHECKING:
    from ..data import LabelledImages
    from ..estimator import FewShotClassifier
    from ..training.assess.evaluation import Evaluation

SHOTS = 10
SHEET = 40  # drawings in the picture


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the update and the picture.")] = Path(
        "demo-output"
    ),
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    as_json: Json = False,
) -> None:
    """Train a classifier on the drawings that ship with the package, and test it on others."""
    from ..data.sample import sample_drawings
    from ..files import check_writable, make_folder
    from ..runtime.extractor import prepare_predictions
    from ..training.torch_settings import configure_process

    printer = Printer(as_json)
    make_folder(out, parents=True)
    file, picture = out / "drawings.safetensors", out / "predictions.png"
    check_writable(file)
    configure_process()
    training, test = sample_drawings(SHOTS, seed)
    printer.say(
        f"Quick, Draw! (Google, CC BY 4.0): {len(training.classes)} classes, {SHOTS} drawings each for training, "
        f"{len(test)} held out for testing."
    )
    _, before = _train_and_test(printer, training, test, seed, steps=0)
    clf, after = _train_and_test(printer, training, test, seed, steps="auto")
    written = clf.save(file)
    with printer.notes():
        prepare_predictions(clf.model_)
    _write_picture(picture, clf, test, after)
    printer.say(
        f"Wrote {file} ({file_size(written)}, {clf.update_.stored_parameters():,} parameters) and {picture}."
    )
    printer.say(
        f"Next: fit show {file}   or, with your own photos:   fit train photos/ --out mine.safetensors"
    )
    printer.document(
        {
            "classes": training.classes,
            "shots": SHOTS,
            "held_out": len(test),
            "before": {"accuracy": before.accuracy, "interval": [before.low, before.high]},
            "after": {"accuracy": after.accuracy, "interval": [after.low, after.high]},
            "steps": clf.history_.steps,
            "seconds": round(clf.history_.seconds, 1),
            "bytes": written,
            "file": str(file),
            "picture": str(picture),
        }
    )


def _train_and_test(
    printer: Printer, training: LabelledImages, test: LabelledImages, seed: int, steps: int | Literal["auto"]
) -> tuple[FewShotClassifier, Evaluation]:
    """Train with so many fine-tuning steps, and print the accuracy on the held-out drawings."""
    from ..estimator import FewShotClassifier
    from ..training.assess.evaluation import evaluate
    from ..training.callbacks import Callbacks

    clf = FewShotClassifier(seed=seed, steps=steps)
    with printer.notes(), progress_bar() as on_step:
        clf.fit_images(training, Callbacks(on_step=on_step))
    predicted = clf.predict_proba(test.sources).argmax(1)
    result = evaluate(predicted, test.labels, len(training.classes))
    when = f"after {clf.history_.steps} steps of fine-tuning" if clf.history_.steps else "before fine-tuning"
    printer.say(
        f"accuracy {when}: {percent(result.accuracy)} "
        f"(95% interval {percent(result.low)} to {percent(result.high)})"
    )
    return clf, result


def _write_picture(picture: Path, clf: FewShotClassifier, test: LabelledImages, result: Evaluation) -> None:
    """Write a sheet of held-out drawings with their predictions."""
    from ..files import write_atomically
    from ..report.figures import prediction_sheet

    shown = list(range(0, len(test), max(1, len(test) // SHEET)))[:SHEET]
    images = [test.sources[i] for i in shown]
    probabilities = clf.predict_proba(images)
    sheet = prediction_sheet(
        images,
        [str(test.classes[test.labels[i]]) for i in shown],
        [str(test.classes[c]) for c in probabilities.argmax(1)],
        probabilities.max(1).tolist(),
        f"Trained on {SHOTS} drawings per class: {percent(result.accuracy)} of {len(test)} new ones are correct",
    )
    write_atomically(picture, sheet)
