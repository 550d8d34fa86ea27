"""The data that a report is made from: photos, their predictions, and the classifier."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from ..data import SkippedImage
from ..formatting import MeasuredAccuracy, count
from ..heads import Head
from ..model import FeaturePredictor, Update, log_posterior
from ..model.estimate import leave_one_out_basis, was_fine_tuned
from ..model.support import Support
from ..training.assess.evaluation import Evaluation, evaluate

ReportKind = Literal["train", "test"]


@dataclass(frozen=True)
class ReportPhotos:
    """N photos."""

    names: list[str]
    labels: np.ndarray  # (N), indices of the classes
    features: np.ndarray  # (N, D)
    thumbnails: list[bytes]
    digests: list[str]  # of their pixels
    contents: list[str] = field(default_factory=list)  # digests of their files, if the update keeps them

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class PhotoPredictions:
    """Predictions for n of the photos, each by a head that was built without the photo."""

    index: np.ndarray  # (n), among the photos
    labels: np.ndarray  # (n)
    logits: np.ndarray  # (n, C)
    predictor: FeaturePredictor  # of the classifier: prior and temperature

    def __len__(self) -> int:
        return len(self.index)

    @cached_property
    def probabilities(self) -> np.ndarray:
        """The class probabilities (n, C)."""
        return np.asarray(self.predictor.posterior(self.logits))

    @cached_property
    def uncalibrated(self) -> np.ndarray:
        """The class probabilities without temperature scaling (n, C)."""
        return np.asarray(np.exp(log_posterior(self.logits, self.predictor.log_prior)))

    @cached_property
    def predicted(self) -> np.ndarray:
        """The predicted class (n)."""
        return np.asarray(self.probabilities.argmax(1))

    @cached_property
    def confidence(self) -> np.ndarray:
        """The probability of the predicted class (n)."""
        return np.asarray(self.probabilities.max(1))

    @cached_property
    def label_probability(self) -> np.ndarray:
        """The probability of the photo's own label (n)."""
        return np.asarray(self.probabilities[np.arange(len(self)), self.labels])

    @cached_property
    def correct(self) -> np.ndarray:
        """Whether the predicted class is the label (n)."""
        return np.asarray(self.predicted == self.labels)

    @cached_property
    def evaluation(self) -> Evaluation:
        """Accuracy, its interval and the confusion matrix."""
        return evaluate(self.predicted, self.labels, self.logits.shape[1])


@dataclass(frozen=True)
class OODPhotos:
    """Out-of-distribution photos, which show none of the classes, and their scores: low ones are rejected."""

    photos: ReportPhotos  # labels: the predicted classes
    scores: np.ndarray  # (n)
    known_scores: np.ndarray  # of the test photos, which show known classes
    threshold: float
    false_alarm: float  # the rate that the threshold was set for


@dataclass(frozen=True)
class ReportData:
    """Everything that the sections of a report need."""

    kind: ReportKind
    title: str  # the name of the update
    classes: list[str]
    photos: ReportPhotos
    predictions: PhotoPredictions | None  # for all photos that could be held out
    headline: PhotoPredictions | None  # those behind the accuracy at the top of the page
    unseen: bool  # whether fine-tuning has not seen the headline's photos
    support: Support | None  # ``held_out``: which of them may test a head built without them
    head: Head
    update: Update
    sites: list[str] = field(default_factory=list)  # of FiLM, in the order of the network
    skipped: list[SkippedImage] = field(default_factory=list)
    seconds: float | None = None  # of fine-tuning
    file_bytes: int | None = None  # of the update file
    ood: OODPhotos | None = None
    deleted: int = 0  # photos that have been deleted since the training, and have no thumbnail

    @property
    def fine_tuned(self) -> bool:
        """Whether fine-tuning changed anything that is kept."""
        return was_fine_tuned(self.update.results)

    @property
    def accuracy(self) -> MeasuredAccuracy | None:
        """The accuracy at the top of the page: that of the test photos, or the estimate that the update stores."""
        if self.kind == "test":
            return None if self.headline is None else self.headline.evaluation
        return self.update.estimate

    def basis(self, predictions: PhotoPredictions) -> str:
        """Return what a number was measured on, as the end of a sentence."""
        if self.kind == "test":
            return f"the {count(len(predictions), 'photo')} of the test folder"
        unseen = len(self.headline) if self.headline is not None and self.unseen else 0
        return leave_one_out_basis(len(predictions), unseen, self.fine_tuned)

    def alt_text(self, i: int) -> str:
        """Describe photo i for a screen reader."""
        return f"{self.photos.names[i]}, labelled {self.classes[int(self.photos.labels[i])]}"
