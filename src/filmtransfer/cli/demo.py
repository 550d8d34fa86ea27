"""fit demo"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from ..formatting import file_size, percent
from .printing import Json, Printer, progress_bar

SHOTS = 10
SHEET = 40


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the update and the picture.")] = Path(
        "demo-output"
    ),
    seed: Annotated[int, typer.Option(help="Everything random follows from it.")] = 0,
    as_json: Json = False,
) -> None:
    """Learn to tell drawings apart, and try it on new ones."""
    import torch

    from ..data.sample import sample_drawings
    from ..estimator import FewShotClassifier
    from ..files import check_writable, write_atomically
    from ..report.figures import prediction_sheet
    from ..training.assess.evaluation import evaluate
    from ..training.torch_settings import prepare

    printer = Printer(as_json)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{out} cannot be made ({error.strerror}).", "Choose another folder.") from None
    check_writable(out / "drawings.safetensors")
    prepare()
    learn, held_out = sample_drawings(SHOTS, seed)
    printer.say(
        f"Quick, Draw! (Google, CC BY 4.0): {len(learn.classes)} classes, {SHOTS} drawings each to learn from, "
        f"{len(held_out)} held out."
    )
    truth = torch.tensor(held_out.labels)
    results = {}
    for moment in ("before", "after"):
        clf = FewShotClassifier(seed=seed, steps=0 if moment == "before" else "auto")
        with printer.notes(), progress_bar() as watch:
            clf.fit_images(learn, watch)
        chances = clf.predict_proba(held_out.sources)
        results[moment] = evaluate(torch.from_numpy(chances.argmax(1)), truth, len(learn.classes))
        words = "before fine-tuning" if moment == "before" else f"after {clf.history_.steps} steps of it"
        result = results[moment]
        printer.say(
            f"accuracy {words}: {percent(result.accuracy)} "
            f"(95% interval {percent(result.low)} to {percent(result.high)})"
        )
    file, picture = out / "drawings.safetensors", out / "predictions.png"
    written = clf.save(file)
    stride = max(1, len(held_out) // SHEET)
    shown = list(range(0, len(held_out), stride))[:SHEET]
    sheet = prediction_sheet(
        [held_out.sources[i] for i in shown],
        [held_out.classes[held_out.labels[i]] for i in shown],
        [held_out.classes[int(chances[i].argmax())] for i in shown],
        [float(chances[i].max()) for i in shown],
        f"{SHOTS} drawings per class learned: {percent(results['after'].accuracy)} right on {len(held_out)} new ones",
    )
    write_atomically(picture, sheet)
    printer.say(f"Wrote {file} ({file_size(written)}, {clf.update_.numbers():,} numbers) and {picture}.")
    printer.say(
        f"Next: fit show {file}   or, with your own photos:   fit train photos/ --out mine.safetensors"
    )
    printer.document(
        {
            "classes": learn.classes,
            "shots": SHOTS,
            "held_out": len(held_out),
            **{
                moment: {"accuracy": r.accuracy, "interval": [r.low, r.high]} for moment, r in results.items()
            },
            "steps": clf.history_.steps,
            "seconds": round(clf.history_.seconds, 1),
            "bytes": written,
            "file": str(file),
            "picture": str(picture),
        }
    )
