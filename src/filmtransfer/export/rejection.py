"""What an export knows of out-of-distribution images: the threshold of the OOD score, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InputError
from ..model import FeaturePredictor
from ..model.metadata import JsonTable
from ..model.ood import FALSE_ALARM, OODDetector, check_false_alarm

REJECTION_OUTPUTS = ("ood_score", "rejected")


@dataclass(frozen=True)
class Rejection:
    """The OOD detector and its threshold at a false-alarm rate; or no detector, and the reason."""

    false_alarm: float  # the share of in-distribution images that may be rejected
    detector: OODDetector | None = None
    threshold: float = 0.0  # images with a lower OOD score are rejected
    reason: str = ""  # why there is no detector

    @classmethod
    def of(cls, predictor: FeaturePredictor, false_alarm: float = FALSE_ALARM) -> Rejection:
        """Return the threshold of a predictor, or why it cannot reject images."""
        check_false_alarm(false_alarm)
        try:
            threshold = predictor.threshold(false_alarm)
        except InputError as error:
            return cls(false_alarm, reason=error.message)
        return cls(false_alarm, predictor.ood, threshold)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs of a graph that say what is rejected; none without a detector."""
        return () if self.detector is None else REJECTION_OUTPUTS

    @property
    def rate(self) -> str:
        """The false-alarm rate as a percentage, with as many digits as were given."""
        return f"{100 * self.false_alarm:g}%"

    def metadata(self) -> JsonTable | None:
        """Return what a program needs to know of the outputs; None if the graph cannot reject."""
        if self.detector is None:
            return None
        return {"threshold": self.threshold, "false_alarm": self.false_alarm}

    def line(self) -> str:
        """Describe in a sentence whether images are rejected."""
        if self.detector is None:
            return f"It does not reject photos: {self.reason}"
        return f"It rejects photos of none of the classes, at a false-alarm rate of {self.rate}."
