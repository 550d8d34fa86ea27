"""fit predict FILE IMAGES…"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from .printing import Device, Json, Printer, Threads, percent


def predict(
    file: Annotated[Path, typer.Argument(help="An update file.")],
    images: Annotated[list[Path], typer.Argument(help="Images, or folders of images.")],
    top: Annotated[int, typer.Option(help="How many classes to show for each image.", min=1)] = 1,
    weights: Annotated[str | None, typer.Option(help="Weights file, if the backbone needs one.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse unreadable images.")] = False,
    device: Device = "auto",
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Say what is in each image."""
    from ..data import find_images
    from ..estimator import FewShotClassifier
    from ..training.process import prepare

    printer = Printer(as_json)
    prepare(threads)
    clf = FewShotClassifier.load(file, weights=weights, device=device)
    paths = [found for place in images for found in (find_images(place) if place.is_dir() else [place])]
    if not paths:
        raise InputError("No images there.", "Name image files, or folders that hold some.")
    result = clf.classify(paths, strict=strict)
    skipped = result.skipped
    found = []
    for i, row in zip(result.readable, result.probabilities, strict=True):
        order = row.argsort()[::-1][:top]
        found.append((str(paths[i]), [(clf.update_.classes[c], float(row[c])) for c in order]))
    printer.table(
        ["image", *(["class", "probability"] if top == 1 else [f"best {top} classes"])],
        [
            [name, best[0][0], percent(best[0][1])]
            if top == 1
            else [name, ", ".join(f"{label} {percent(p)}" for label, p in best)]
            for name, best in found
        ],
        right=(2,),
    )
    for miss in skipped:
        printer.note(f"left out: {miss.name}: {miss.reason}")
    printer.document(
        {
            "predictions": [
                {"image": name, "class": best[0][0], "probabilities": [{"class": c, "p": p} for c, p in best]}
                for name, best in found
            ],
            "skipped": [{"image": s.name, "reason": s.reason} for s in skipped],
        }
    )
