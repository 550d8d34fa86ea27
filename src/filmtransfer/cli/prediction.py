"""Loading a predictor for a command, and making the graph that the next command will use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import check_choice, check_count

if TYPE_CHECKING:
    from ..predictor import Predictor

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
