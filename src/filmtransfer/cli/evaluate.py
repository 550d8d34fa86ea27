"""fit evaluate FILE FOLDER"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from .printing import Device, Json, Printer, Threads, percent


def evaluate(
    file: Annotated[Path, typer.Argument(help="An update file.")],
    folder: Annotated[Path, typer.Argument(help="Labelled images: a folder per class, or a CSV.")],
    weights: Annotated[str | None, typer.Option(help="Weights file, if the backbone needs one.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse unreadable images.")] = False,
    device: Device = "auto",
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Measure accuracy on labelled images."""
    import torch

    from ..data import LabelledImages
    from ..estimator import FewShotClassifier
    from ..training.evaluate import evaluate as compare
    from ..training.process import prepare

    printer = Printer(as_json)
    prepare(threads)
    clf = FewShotClassifier.load(file, weights=weights, device=device)
    images = LabelledImages.from_any(folder)
    known = {str(name): i for i, name in enumerate(clf.update_.classes)}
    strange = [str(name) for name in images.classes if str(name) not in known]
    if strange:
        raise InputError(
            f"The classifier does not know the class{'es' if len(strange) > 1 else ''} {', '.join(strange)}.",
            f"It knows: {', '.join(known)}.",
        )
    for note in images.warnings:
        printer.note(note)
    found = clf.classify(images.sources, strict=strict)
    skipped = found.skipped
    truth = torch.tensor([known[str(images.classes[images.labels[i]])] for i in found.readable])
    result = compare(torch.from_numpy(found.probabilities.argmax(1)), truth, len(known))

    printer.say(
        f"accuracy {percent(result.accuracy)} on {result.images} images "
        f"(95% interval {percent(result.low)} to {percent(result.high)})"
    )
    rows = []
    for c, (name, share) in enumerate(zip(known, result.by_class(), strict=True)):
        others = result.confusion[c].clone()
        others[c] = 0
        worst = int(others.argmax())
        taken = f"{list(known)[worst]} ({int(others[worst])})" if int(others.sum()) else ""
        rows.append([name, int(result.confusion[c].sum()), "–" if share is None else percent(share), taken])
    printer.table(["class", "images", "right", "most often taken for"], rows, right=(1, 2))
    for miss in skipped:
        printer.note(f"left out: {miss.name}: {miss.reason}")
    printer.document(
        {
            "accuracy": result.accuracy,
            "interval": [result.low, result.high],
            "images": result.images,
            "classes": list(known),
            "confusion": result.confusion.tolist(),
            "skipped": [{"image": s.name, "reason": s.reason} for s in skipped],
        }
    )
