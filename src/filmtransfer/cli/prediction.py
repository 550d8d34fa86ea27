"""Loading a predictor for a command, and making the graph that the next command will use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import check_choice, check_count

if TYPE_CHECKING:
    from ..predictor import Predictor
    from .printing import Printer

RUNTIMES = ("auto", "onnx", "torch")


def load_predictor(
    file: Path, runtime: str, weights: str | None, device: str, threads: int | None
) -> Predictor:
    """Return the predictor of an update file; a wrong option is an error before any work."""
    check_choice("--runtime", runtime, RUNTIMES)
    if threads is not None:
        check_count("threads", threads)
    from ..predictor import Predictor

    return Predictor.load(file, runtime=runtime, weights=weights, device=device, threads=threads)  # type: ignore[arg-type]


def prepare_next(printer: Printer, predictor: Predictor, runtime: str, weights: str | None = None) -> None:
    """Make the graph, after the answer, if torch had to predict because there was none."""
    if runtime != "auto" or predictor.runtime == "onnx":
        return
    from ..runtime.extractor import prepare_predictions

    with printer.notes():
        if prepare_predictions(predictor.torch_model(), weights):
            printer.note(f"prepared {predictor.update_.backbone}: the next prediction starts without torch")
