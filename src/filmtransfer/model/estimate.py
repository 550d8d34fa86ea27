"""The accuracy estimate that an update stores, and the words for it.

Training and editing measure it (training/assess/assessment.py); commands, Python, report, model card and service show
these figures and no others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from ..errors import UpdateFileError
from ..formatting import accuracy_figures, accuracy_text, count
from .metadata import Json

STORED_DIGITS = 4


@dataclass(frozen=True)
class Estimate:
    """The leave-one-out accuracy with its 95% interval, and the images it was measured on."""

    accuracy: float
    low: float
    high: float
    images: int
    unseen: bool  # whether fine-tuning had not seen these images
    fine_tuned: bool = True  # whether there was any fine-tuning to see them

    @classmethod
    def read(cls, results: Mapping[str, Json]) -> Estimate | None:
        """Return the estimate in an update's results; None if there is none."""
        stored = results.get("estimate")
        if stored is None:
            return None
        try:
            low, accuracy, high = (float(stored[name]) for name in ("low", "accuracy", "high"))
            images, unseen = stored["images"], stored["unseen"]
        except (KeyError, TypeError, ValueError):
            raise _damaged() from None
        if not 0 <= low <= accuracy <= high <= 1 or type(images) is not int or images < 1:
            raise _damaged()
        return cls(accuracy, low, high, images, bool(unseen), was_fine_tuned(results))

    def stored(self, log_loss: Sequence[float] = ()) -> dict[str, Json]:
        """Return what is stored of it; in an update with the log loss before and after temperature scaling."""
        figures = {name: round(getattr(self, name), STORED_DIGITS) for name in ("accuracy", "low", "high")}
        losses = [round(loss, STORED_DIGITS) for loss in log_loss]
        return figures | {
            "images": self.images,
            "unseen": self.unseen,
            **({"log_loss": losses} if losses else {}),
        }

    def to_dict(self) -> dict[str, Json]:
        """Return the figures, what they were measured on, the accuracy as a percentage and the sentence about them."""
        figures = {k: v for k, v in asdict(self).items() if k != "fine_tuned"}
        return figures | {"percentage": self.percentage, "text": self.text}

    @property
    def percentage(self) -> str:
        """The accuracy with as many digits as the images support."""
        return accuracy_figures(self)[0]

    @property
    def text(self) -> str:
        """The estimate in one or two sentences."""
        photos = count(self.images, "photo")
        if not self.unseen:
            return (
                f"Leave-one-out accuracy {accuracy_text(self)}, from {photos} that fine-tuning had seen: "
                "expect less on new photos."
            )
        each = "each classified" if self.images > 1 else "classified"
        basis = (
            f"{photos} that fine-tuning had not seen"
            if self.fine_tuned
            else f"{photos}, {each} without itself"
        )
        return f"Estimated accuracy on new photos {accuracy_text(self)}, from {basis}."


def describe_estimate(estimate: Estimate | None) -> str:
    """Return the estimate in words, or that there is none."""
    if estimate is None:
        return "The accuracy has not been estimated. Measure it on labelled photos with 'fit evaluate'."
    return estimate.text


def leave_one_out_basis(images: int, unseen: int, fine_tuned: bool) -> str:
    """Return what was measured on leave-one-out predictions of which ``unseen`` are of photos new to fine-tuning."""
    photos = f"{images:,} of your photos" if images > 1 else "one of your photos"
    each = "each was" if images > 1 else "it was"
    method = f"by cross-validation: {each} classified by a model built without it"
    if not fine_tuned:
        return f"{photos} {method}"
    if unseen == images:
        return f"{photos} that fine-tuning has not seen, {method}"
    seen = f"{images - unseen:,} of them" if unseen else "them" if images > 1 else "it"
    return f"{photos} {method}; fine-tuning has seen {seen}, so new photos may do a little worse"


def was_fine_tuned(results: Mapping[str, Json]) -> bool:
    """Tell from an update's results whether fine-tuning changed anything that is kept."""
    return bool(results.get("steps", 0)) and results.get("share", 1.0) != 0


def _damaged() -> UpdateFileError:
    return UpdateFileError("The stored accuracy estimate is not valid.", "Train it again.")
