"""What 'fit predict' and 'fit evaluate' share: loading a classifier, and the graph that the next command will use."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .printing import Printer, as_typed
from .progress import PhaseDisplay, phases

if TYPE_CHECKING:
    from ..predictor import Predictor


@contextmanager
def loaded_predictor(
    printer: Printer, file: Path, *, runtime: str, weights: str | None, device: str, threads: int | None
) -> Iterator[tuple[Predictor, PhaseDisplay]]:
    """Yield the classifier of an update file, and the display of what is done, which only a terminal has.

    Without a graph of its backbone loading takes some seconds.
    """
    from ..predictor import Predictor

    with phases(quiet=not sys.stderr.isatty()) as display:
        display.phase("loading the classifier")
        with printer.notes():
            clf = Predictor.load(
                file, runtime=as_typed(runtime), weights=weights, device=as_typed(device), threads=threads
            )
        yield clf, display


def prepare_next(printer: Printer, predictor: Predictor, runtime: str, weights: str | None = None) -> None:
    """Make the graph, after the answer, if torch had to predict because there was none."""
    if runtime != "auto" or predictor.runtime == "onnx":
        return
    from ..runtime.extractor import prepare_predictions

    with printer.notes():
        if prepare_predictions(predictor.torch_model(), weights):
            printer.note(f"prepared {predictor.update_.backbone}: the next prediction starts without torch")
