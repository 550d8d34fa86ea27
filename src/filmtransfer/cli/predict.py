"""fit predict FILE IMAGES…"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UsageError
from ..formatting import count, percent
from .prediction import loaded_predictor, prepare_next
from .printing import Json, PredictionDevice, Printer, RuntimeOption, Strict, Threads, UpdateFile, Weights

if TYPE_CHECKING:
    from ..model import Explanation
    from ..model.classification import Classified
    from ..predictor import Predictor


def predict(
    file: UpdateFile,
    images: Annotated[list[Path], typer.Argument(help="Images, or folders of images.")],
    top: Annotated[int, typer.Option(help="How many classes to show for each image.", min=1)] = 1,
    reject: Annotated[
        bool, typer.Option("--reject", help="Reject out-of-distribution images as 'none of these' classes.")
    ] = False,
    false_alarm: Annotated[
        float | None,
        typer.Option(help="With --reject: the share of in-distribution images that may be rejected (0.05)."),
    ] = None,
    why: Annotated[
        bool,
        typer.Option(
            "--why", help="Explain: the distance to each class, and the nearest photos of the training set."
        ),
    ] = False,
    weights: Weights = None,
    strict: Strict = False,
    device: PredictionDevice = "auto",
    runtime: RuntimeOption = "auto",
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Classify images."""
    from ..data import list_images
    from ..model.ood import FALSE_ALARM, check_false_alarm

    if false_alarm is not None and not reject:
        raise UsageError("--false-alarm needs --reject.", "Add --reject, or remove --false-alarm.")
    rate = FALSE_ALARM if false_alarm is None else false_alarm
    check_false_alarm(rate)
    printer = Printer(as_json)
    paths = list_images(images)
    loaded = loaded_predictor(printer, file, runtime=runtime, weights=weights, device=device, threads=threads)
    with loaded as (clf, display):
        display.phase(f"classifying {count(len(paths), 'photo')}")
        result = clf.classify(paths, strict=strict)
    rows = _rows(clf, result, [str(path) for path in paths], top, rate if reject else None)
    reasons = clf.predictor_.explain(result.predictions.features) if why else []
    printer.table(
        ["image", *(["class", "probability"] if top == 1 else [f"best {top} classes"])],
        [[row.name, *_cells(row, top)] for row in rows],
        right=(2,),
    )
    predictions = [row.to_dict() for row in rows]
    for row, prediction, reason in zip(rows, predictions, reasons, strict=False):
        _print_reasons(printer, row, reason)
        nearest = [{"photo": photo, "class": c, "distance": d} for photo, c, d in reason.nearest]
        prediction["why"] = {
            "distances": {str(c): distance for c, distance in reason.distances.items()},
            "nearest": nearest,
        }
    printer.skipped(result.skipped)
    printer.document(
        {
            "predictions": predictions,
            "skipped": [s.to_dict() for s in result.skipped],
            "runtime": clf.runtime,
        }
    )
    prepare_next(printer, clf, runtime, weights)


@dataclass(frozen=True)
class ImagePrediction:
    """What is shown of one image."""

    name: str
    ranking: list[tuple[object, float]]  # classes and their probabilities, the most probable first
    score: float | None  # the OOD score, where images may be rejected
    threshold: float

    @property
    def rejected(self) -> bool:
        """Whether it shows none of the classes."""
        return self.score is not None and self.score < self.threshold

    def to_dict(self) -> dict[str, object]:
        """Return the prediction as it appears in the JSON document."""
        rejection = {
            "rejected": self.rejected,
            "unknown": self.rejected,
            "ood_score": self.score,
            "ood_threshold": self.threshold,
        }
        return {
            "image": self.name,
            "class": None if self.rejected else self.ranking[0][0],
            **(rejection if self.score is not None else {}),
            "probabilities": [{"class": c, "p": p} for c, p in self.ranking],
        }


def _rows(
    clf: Predictor, result: Classified, names: list[str], top: int, false_alarm: float | None
) -> list[ImagePrediction]:
    """Return the predictions of the readable images; with a false-alarm rate images may be rejected."""
    classes, predictor = clf.update_.classes, clf.predictor_
    scores: list[float | None] = [None] * len(result.readable)
    threshold = -math.inf
    if false_alarm is not None:
        scores = predictor.ood_scores(result.predictions).tolist()
        threshold = predictor.threshold(false_alarm)
    rankings = [
        [(classes[c], float(row[c])) for c in row.argsort()[::-1][:top]] for row in result.probabilities
    ]
    return [
        ImagePrediction(names[i], ranking, score, threshold)
        for i, ranking, score in zip(result.readable, rankings, scores, strict=True)
    ]


def _cells(row: ImagePrediction, top: int) -> list[str]:
    if row.rejected:
        return ["(none of these)", ""] if top == 1 else ["(none of these)"]
    if top == 1:
        return [str(row.ranking[0][0]), percent(row.ranking[0][1])]
    return [", ".join(f"{label} {percent(p)}" for label, p in row.ranking)]


def _print_reasons(printer: Printer, row: ImagePrediction, reasons: Explanation) -> None:
    """Print the distances to the five nearest classes and to the nearest photos, and why it was rejected or not."""
    printer.say()
    printer.say(f"{row.name}: why")
    if row.score is not None:
        side = "below" if row.rejected else "not below"
        printer.say(f"OOD score {row.score:.2f}, {side} the threshold of {row.threshold:.2f}.")
    nearest = list(reasons.distances.items())[:5]
    printer.table(["class", "distance"], [[c, f"{distance:.2f}"] for c, distance in nearest], right=(1,))
    printer.table(
        ["nearest photo", "of class", "distance"],
        [[photo, c, f"{distance:.2f}"] for photo, c, distance in reasons.nearest],
        right=(2,),
    )
