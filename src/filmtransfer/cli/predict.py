"""fit predict FILE IMAGES…"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..formatting import percent
from .printing import Device, Json, Printer, Threads


def predict(
    file: Annotated[Path, typer.Argument(help="An update file.")],
    images: Annotated[list[Path], typer.Argument(help="Images, or folders of images.")],
    top: Annotated[int, typer.Option(help="How many classes to show for each image.", min=1)] = 1,
    reject: Annotated[
        bool, typer.Option("--reject", help="Say 'none of these' of images of none of the classes.")
    ] = False,
    false_alarm: Annotated[
        float, typer.Option(help="With --reject: the share of images of known classes that may be rejected.")
    ] = 0.05,
    why: Annotated[
        bool,
        typer.Option(
            "--why", help="Say how far each class is, and which photos it was learned from are nearest."
        ),
    ] = False,
    weights: Annotated[str | None, typer.Option(help="Weights file, if the backbone needs one.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse unreadable images.")] = False,
    device: Device = "auto",
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Say what is in each image."""
    from ..data import list_images
    from ..estimator import FewShotClassifier
    from ..training.torch_settings import prepare

    printer = Printer(as_json)
    prepare(threads)
    clf = FewShotClassifier.load(file, weights=weights, device=device)
    paths = list_images(images)
    result = clf.classify(paths, strict=strict)
    rejected = clf.rejected(result, false_alarm) if reject else [False] * len(result.readable)
    reasons = clf.reasons(result) if why else [None] * len(result.readable)
    classes = clf.update_.classes
    found = []
    for i, row, strange, because in zip(
        result.readable, result.probabilities, rejected, reasons, strict=True
    ):
        best = [(classes[c], float(row[c])) for c in row.argsort()[::-1][:top]]
        found.append((str(paths[i]), best, bool(strange), because))
    printer.table(
        ["image", *(["class", "probability"] if top == 1 else [f"best {top} classes"])],
        [[name, *_answer(best, strange, top)] for name, best, strange, _ in found],
        right=(2,),
    )
    for name, _, _, because in found:
        if because is not None:
            _explain(printer, name, because)
    for miss in result.skipped:
        printer.note(f"left out: {miss.name}: {miss.reason}")
    printer.document(
        {
            "predictions": [
                {
                    "image": name,
                    "class": None if strange else best[0][0],
                    **({"unknown": strange} if reject else {}),
                    "probabilities": [{"class": c, "p": p} for c, p in best],
                    **({} if because is None else {"why": _plain(because)}),
                }
                for name, best, strange, because in found
            ],
            "skipped": [{"image": s.name, "reason": s.reason} for s in result.skipped],
        }
    )


def _answer(best: list[tuple[Any, float]], strange: bool, top: int) -> list[str]:
    if strange:
        return ["(none of these)", ""] if top == 1 else ["(none of these)"]
    if top == 1:
        return [str(best[0][0]), percent(best[0][1])]
    return [", ".join(f"{label} {percent(p)}" for label, p in best)]


def _explain(printer: Printer, name: str, because: Any) -> None:
    """The distances to the nearest classes, and the nearest photos."""
    printer.say()
    printer.say(f"{name}: why")
    nearest = list(because.distances.items())[:5]
    printer.table(["class", "distance"], [[c, f"{far:.2f}"] for c, far in nearest], right=(1,))
    printer.table(
        ["nearest photo", "of class", "distance"],
        [[photo, c, f"{far:.2f}"] for photo, c, far in because.nearest],
        right=(2,),
    )


def _plain(because: Any) -> dict[str, Any]:
    return {
        "distances": {str(c): far for c, far in because.distances.items()},
        "nearest": [{"photo": photo, "class": c, "distance": far} for photo, c, far in because.nearest],
    }
