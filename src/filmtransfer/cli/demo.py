"""fit demo"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..formatting import accuracy_figures, accuracy_text, count, file_size
from .printing import Json, Printer
from .progress import PhaseDisplay, phases

if TYPE_CHECKING:
    from ..data import LabelledImages
    from ..estimator import FewShotClassifier
    from ..training.assess.evaluation import Evaluation

SHOTS = 10
ROWS = 4  # of the picture: so many drawings of each class


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
    from ..installation import command
    from ..model import describe_estimate

    printer = Printer(as_json)
    make_folder(out, parents=True)
    file, picture = out / "drawings.safetensors", out / "predictions.png"
    check_writable(file)
    training, test = sample_drawings(SHOTS, seed)
    printer.say(
        f"Quick, Draw! (Google, CC BY 4.0): {len(training.classes)} classes, {SHOTS} drawings each for training, "
        f"{len(test)} held out for testing."
    )
    with phases() as display:
        display.phase("loading torch")
        from ..runtime.extractor import prepare_predictions
        from ..training.torch_settings import configure_process

        configure_process()
        _, before = _train_and_test(printer, display, training, test, seed, steps=0)
        clf, after = _train_and_test(printer, display, training, test, seed, steps="auto")
        display.phase("writing")
        written, compact = clf.save(file), len(clf.update_.compact().to_bytes())
        _write_picture(picture, clf, test, after)
        display.phase("preparing fast predictions")
        with printer.notes():
            prepare_predictions(clf.model_)
    printer.say(
        f"Wrote {picture} and {file}: {clf.update_.stored_parameters():,} parameters in "
        f"{file_size(compact)}; with the features of the drawings, {file_size(written)}."
    )
    printer.say(
        f"{describe_estimate(clf.update_.estimate)} The file stores this estimate, which needs no test set."
    )
    printer.say(
        f"Next: {command()} show {file}   or, with your own photos:   "
        f"{command()} train photos/ --out mine.safetensors"
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
            "compact_bytes": compact,
            "file": str(file),
            "picture": str(picture),
        }
    )


def _train_and_test(
    printer: Printer,
    display: PhaseDisplay,
    training: LabelledImages,
    test: LabelledImages,
    seed: int,
    steps: int | Literal["auto"],
) -> tuple[FewShotClassifier, Evaluation]:
    """Train with so many fine-tuning steps, and print the accuracy on the held-out drawings."""
    from ..estimator import FewShotClassifier
    from ..training.assess.evaluation import evaluate
    from ..training.callbacks import Callbacks

    clf = FewShotClassifier(seed=seed, steps=steps)
    with printer.notes():
        clf.fit_images(training, Callbacks(display.on_step, on_phase=display.phase))
    display.phase(f"classifying {len(test)} new drawings")
    predicted = clf.predict_proba(test.sources).argmax(1)
    result = evaluate(predicted, test.labels, len(training.classes))
    when = f"after {count(clf.history_.steps, 'step')} of fine-tuning" if steps else "before fine-tuning"
    printer.say(f"Accuracy {when}, on {len(test)} new drawings: {accuracy_text(result)}")
    return clf, result


def _write_picture(picture: Path, clf: FewShotClassifier, test: LabelledImages, result: Evaluation) -> None:
    """Write a sheet of held-out drawings with their predictions: a column for each class."""
    import numpy as np

    from ..data.sample import enlarge_drawing
    from ..files import write_atomically
    from ..report.figures import prediction_sheet

    members = [np.flatnonzero(np.array(test.labels) == c)[:ROWS] for c in range(len(test.classes))]
    shown = np.stack(members, 1).flatten().tolist()
    probabilities = clf.predict_proba([test.sources[i] for i in shown])
    sheet = prediction_sheet(
        [enlarge_drawing(test.sources[i]) for i in shown],
        [str(test.classes[test.labels[i]]) for i in shown],
        [str(test.classes[c]) for c in probabilities.argmax(1)],
        probabilities.max(1).tolist(),
        f"Trained on {SHOTS} drawings of each class, tested on {len(test):,} others: "
        f"{accuracy_figures(result)[0]} are classified correctly",
        columns=len(test.classes),
    )
    write_atomically(picture, sheet)
