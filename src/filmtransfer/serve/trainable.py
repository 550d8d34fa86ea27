"""Whether a project can be trained: checked when a training is requested, and again when a worker begins it."""

from __future__ import annotations

from ..errors import FitError

MIN_CLASSES = 2


def check_trainable(classes: int, error: type[FitError]) -> None:
    """Raise ``error`` unless at least two ``classes`` have photos."""
    if classes < MIN_CLASSES:
        present = "only one class has photos" if classes else "no class has photos"
        raise error(
            f"A training needs photos of at least two classes; {present}.",
            "Add a few photos to each of two or more classes, then train.",
        )
