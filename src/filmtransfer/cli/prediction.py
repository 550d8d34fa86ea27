"""What follows a prediction: the graph that the next command will use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..predictor import Predictor
    from .printing import Printer


def prepare_next(printer: Printer, predictor: Predictor, runtime: str, weights: str | None = None) -> None:
    """Make the graph, after the answer, if torch had to predict because there was none."""
    if runtime != "auto" or predictor.runtime == "onnx":
        return
    from ..runtime.extractor import prepare_predictions

    with printer.notes():
        if prepare_predictions(predictor.torch_model(), weights):
            printer.note(f"prepared {predictor.update_.backbone}: the next prediction starts without torch")
