"""fit predict FILE IMAGES…"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..formatting import count, percent
from .prediction import loaded_predictor, prepare_next
from .printing import Json, PredictionDevice, Printer, RuntimeOption, Strict, Threads, UpdateFile, Weights

if TYPE_CHECKING:
    from ..model import Explanation

Ranking = list[tuple[object, float]]  # classes and their probabilities, the most probable first


def predict(
    file: UpdateFile,
    images: Annotated[list[Path], typer.Argument(help="Images, or folders of images.")],
    top: Annotated[int, typer.Option(help="How many classes to show for each image.", min=1)] = 1,
    reject: Annotated[
        bool, typer.Option("--reject", help="Reject out-of-distribution images as 'none of these' classes.")
    ] = False,
    false_alarm: Annotated[
        float, typer.Option(help="With --reject: the share of in-distribution images that may be rejected.")
    ] = 0.05,  # model.ood.FALSE_ALARM, whose import would need numpy
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

    printer = Printer(as_json)
    paths = list_images(images)
    loaded = loaded_predictor(printer, file, runtime=runtime, weights=weights, device=device, threads=threads)
    with loaded as (clf, display):
        display.phase(f"classifying {count(len(paths), 'photo')}")
        result = clf.classify(paths, strict=strict)
    names = [str(paths[i]) for i in result.readable]
    rejected = clf.rejected(result, false_alarm).tolist() if reject else [False] * len(names)
    reasons = clf.predictor_.explain(result.predictions.features) if why else []
    classes = clf.update_.classes
    rankings: list[Ranking] = [
        [(classes[c], float(row[c])) for c in row.argsort()[::-1][:top]] for row in result.probabilities
    ]
    printer.table(
        ["image", *(["class", "probability"] if top == 1 else [f"best {top} classes"])],
        [
            [name, *_cells(ranking, out, top)]
            for name, ranking, out in zip(names, rankings, rejected, strict=True)
        ],
        right=(2,),
    )
    predictions: list[dict[str, object]] = [
        {
            "image": name,
            "class": None if out else ranking[0][0],
            **({"rejected": out, "unknown": out} if reject else {}),
            "probabilities": [{"class": c, "p": p} for c, p in ranking],
        }
        for name, ranking, out in zip(names, rankings, rejected, strict=True)
    ]
    for prediction, reason in zip(predictions, reasons, strict=False):
        _print_reasons(printer, prediction["image"], reason)
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


def _cells(ranking: Ranking, rejected: bool, top: int) -> list[str]:
    if rejected:
        return ["(none of these)", ""] if top == 1 else ["(none of these)"]
    if top == 1:
        return [str(ranking[0][0]), percent(ranking[0][1])]
    return [", ".join(f"{label} {percent(p)}" for label, p in ranking)]


def _print_reasons(printer: Printer, name: object, reasons: Explanation) -> None:
    """Print the distances to the five nearest classes and to the nearest photos."""
    printer.say()
    printer.say(f"{name}: why")
    nearest = list(reasons.distances.items())[:5]
    printer.table(["class", "distance"], [[c, f"{distance:.2f}"] for c, distance in nearest], right=(1,))
    printer.table(
        ["nearest photo", "of class", "distance"],
        [[photo, c, f"{distance:.2f}"] for photo, c, distance in reasons.nearest],
        right=(2,),
    )
