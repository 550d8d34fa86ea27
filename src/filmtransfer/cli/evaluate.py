"""fit evaluate FILE FOLDER"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError, UsageError
from ..formatting import percent
from .printing import Device, Json, Printer, Threads


def evaluate(
    file: Annotated[Path, typer.Argument(help="An update file.")],
    folder: Annotated[Path, typer.Argument(help="Labelled images: a folder per class, or a CSV.")],
    weights: Annotated[str | None, typer.Option(help="Weights file, if the backbone needs one.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse unreadable images.")] = False,
    report: Annotated[Path | None, typer.Option(help="Write a report (HTML).")] = None,
    strangers: Annotated[
        Path | None,
        typer.Option(
            help="A folder of images of none of the classes, to see how many are told; for the report."
        ),
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Measure accuracy on labelled images."""
    import torch

    from ..data import LabelledImages
    from ..estimator import FewShotClassifier
    from ..files import check_writable
    from ..report import Album
    from ..training.assess.evaluation import evaluate as compare
    from ..training.torch_settings import prepare

    printer = Printer(as_json)
    if report is not None:
        check_writable(report)
    elif strangers is not None:
        raise UsageError("--strangers belongs to a report.", "Say where it goes: --report FILE")
    prepare(threads)
    clf = FewShotClassifier.load(file, weights=weights, device=device)
    images = LabelledImages.from_path(folder)
    known = {str(name): i for i, name in enumerate(clf.update_.classes)}
    strange = [str(name) for name in images.classes if str(name) not in known]
    if strange:
        raise InputError(
            f"The classifier does not know the class{'es' if len(strange) > 1 else ''} {', '.join(strange)}.",
            f"It knows: {', '.join(known)}.",
        )
    for note in images.warnings:
        printer.note(note)
    album = Album()
    found = clf.classify(images.sources, strict=strict, look=album.see if report is not None else None)
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
    if report is not None:
        _write_report(report, clf, file, album, truth, found, strangers)
        printer.say(f"Wrote {report}. Open it in a browser.")
    printer.document(
        {
            **({} if report is None else {"report": str(report)}),
            "accuracy": result.accuracy,
            "interval": [result.low, result.high],
            "images": result.images,
            "classes": list(known),
            "confusion": result.confusion.tolist(),
            "skipped": [{"image": s.name, "reason": s.reason} for s in skipped],
        }
    )


def _write_report(
    report: Path, clf: Any, file: Path, album: Any, truth: Any, found: Any, strangers: Path | None
) -> None:
    """The report on the test images, and on strangers if there are any."""
    from ..data.images import find_images
    from ..report import Album, of_strangers, of_test, write_report

    others = None
    if strangers is not None:
        sources = find_images(strangers)
        if not sources:
            raise InputError(f"No images in {strangers}.", "Give a folder of images of none of the classes.")
        seen = Album()
        others = of_strangers(clf, seen, clf.classify(sources, look=seen.see), found)
    write_report(report, of_test(clf, album, truth, found, file, others))
