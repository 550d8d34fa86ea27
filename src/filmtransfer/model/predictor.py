"""From features to probabilities, rejections and explanations: the only code that does it.

    p(y=c | z) = softmax(logits / T + log π)_c

Temperature scaling divides the logits alone: the prior π says how often classes occur, not how confident the features
are. The estimator, the multi-user engine, the report, the export and federated evaluation all use a ``FeaturePredictor``.
It computes with numpy arrays: features may come from torch or from onnxruntime.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..arrays import Array, like, log_softmax, namespace, to_numpy
from ..errors import InputError, UpdateFileError, check_count, invalid_choice
from ..heads import Head, SingularError, State, map_state
from .ood import FALSE_ALARM, MIN_SCORES, OODDetector
from .support import Label, Support, no_statistics

NO_SCORES = (
    f"it has fewer than {MIN_SCORES} leave-one-out scores, or was made by an earlier version",
    "Train it with two or more photos of each class.",
)
Prior = Literal["uniform", "empirical"] | Sequence[float] | np.ndarray


def log_posterior(logits: Array, log_prior: Array | None = None, temperature: float = 1.0) -> Array:
    """Compute log p(y=c | z) (Q, C) of logits (Q, C) under log π (C), equal priors if None; arrays or tensors."""
    scaled = logits / temperature if temperature != 1 else logits
    return log_softmax(scaled if log_prior is None else scaled + like(log_prior, scaled))


def log_prior(prior: Prior, counts: Array | Sequence[int]) -> np.ndarray:
    """Compute log π_c (C) in float64: uniform, N_c/N, or given as C positive numbers."""
    counts = np.asarray(to_numpy(counts))
    if isinstance(prior, str):
        if prior == "uniform":
            return np.zeros(len(counts))
        if prior == "empirical":
            return np.asarray(np.log(counts / counts.sum()))
        raise invalid_choice("The prior", prior, ("uniform", "empirical", "an array of C numbers"))
    given = to_numpy(prior).astype(np.float64)
    if given.shape != counts.shape or not (given > 0).all() or not np.isfinite(given).all():
        raise InputError(
            f"The prior has to be {len(counts)} positive numbers.", "One per class, in class order."
        )
    return np.asarray(np.log(given / given.sum()))


@dataclass(frozen=True, slots=True)
class Predictions:
    """What a classifier makes of B images."""

    features: np.ndarray  # (B, D)
    logits: np.ndarray  # (B, C), float64
    probabilities: np.ndarray  # (B, C), float64

    def __len__(self) -> int:
        return len(self.logits)

    @property
    def labels(self) -> np.ndarray:
        """The most probable class of each image (B), as an index."""
        return np.asarray(self.probabilities.argmax(1))

    @staticmethod
    def concatenate(parts: Sequence[Predictions]) -> Predictions:
        """Join the predictions of several batches."""
        return Predictions(
            np.concatenate([part.features for part in parts]),
            np.concatenate([part.logits for part in parts]),
            np.concatenate([part.probabilities for part in parts]),
        )


@dataclass(frozen=True)
class Explanation:
    """Why an image was classified as it was, in the head's own metric."""

    distances: dict[Label, float]  # to each class mean, nearest first
    nearest: list[tuple[str, Label, float]]  # name, class and distance of support photos, nearest first


@dataclass(frozen=True, slots=True, eq=False)
class FeaturePredictor:
    """All that prediction needs beside the features: a head with its state, π, T and the OOD detector."""

    head: Head  # may be shared by many predictors; what belongs to this one is the state
    state: State
    classes: list[Label]
    log_prior: np.ndarray  # log π (C)
    temperature: float = 1.0  # T
    ood: OODDetector | None = None
    support: Support | None = None
    no_ood: tuple[str, str] = NO_SCORES  # why there is no OOD detector, and what to do

    @classmethod
    def of(cls, head: Head, classes: Sequence[Label] = (), prior: Prior = "uniform") -> FeaturePredictor:
        """Return the predictor of a configured head without temperature scaling."""
        assert head.counts is not None
        names = list(classes) or head.classes.tolist()
        return cls(head, map_state(to_numpy, head.configured()), names, log_prior(prior, head.counts))

    def predict(self, features: Array) -> Predictions:
        """Compute logits and probabilities of features (B, D), an array or a tensor; all of them are finite."""
        features = to_numpy(features)
        try:
            with np.errstate(all="ignore"):  # what overflows is refused
                logits = self.head.evaluate(self.state, features).astype(np.float64)
                probabilities = self.posterior(logits)
        except SingularError:
            raise InputError("The head of this classifier is singular.", "Train it again.") from None
        _check_finite("probabilities", logits, probabilities)
        return Predictions(features, logits, probabilities)

    def posterior(self, logits: Array) -> Array:
        """Compute p(y=c | z) of logits (B, C), an array or a tensor."""
        return namespace(logits).exp(self.log_posterior(logits))

    def log_posterior(self, logits: Array) -> Array:
        """Compute log p(y=c | z) of logits (B, C), an array or a tensor."""
        return log_posterior(logits, self.log_prior, self.temperature)

    def ood_scores(self, predictions: Predictions) -> np.ndarray:
        """Compute the OOD score of each image (B): the lower, the less it looks like any class."""
        with np.errstate(all="ignore"):
            scores: np.ndarray = self._detector().scores(predictions.features, predictions.logits)
        _check_finite("OOD scores", scores)
        return scores

    def rejected(self, predictions: Predictions, false_alarm: float = FALSE_ALARM) -> np.ndarray:
        """Tell which images belong to none of the classes (B).

        ``false_alarm`` is the share of in-distribution images that may be rejected.
        """
        return self.ood_scores(predictions) < self.threshold(false_alarm)

    def threshold(self, false_alarm: float = FALSE_ALARM) -> float:
        """Return the OOD score below which an image is rejected."""
        threshold = self._detector().threshold(false_alarm)
        _check_finite("OOD scores", threshold)
        return threshold

    def _detector(self) -> OODDetector:
        if self.ood is None:
            reason, hint = self.no_ood
            raise InputError(f"This classifier cannot reject out-of-distribution images: {reason}.", hint)
        return self.ood

    def explain(self, features: np.ndarray, photos: int = 3) -> list[Explanation]:
        """Explain features (B, D) by the distances to the class means and the nearest support photos."""
        if self.support is None:
            raise no_statistics("its predictions cannot be explained")
        check_count("photos", photos, 0)
        support, queries = self.support.features.astype(np.float64), features.astype(np.float64)
        references = np.concatenate([self.support.class_means(), support])
        try:
            with np.errstate(all="ignore"):
                distances = self.head.distances(support, queries, references)
        except SingularError:
            distances = np.array(np.nan)
        _check_finite("distances", distances)
        to_means, to_photos = np.split(distances, [len(self.classes)], 1)
        return [
            Explanation(
                {self.classes[c]: float(means[c]) for c in np.argsort(means, kind="stable")},
                [self._neighbour(i, far[i]) for i in np.argsort(far, kind="stable")[:photos]],
            )
            for means, far in zip(to_means, to_photos, strict=True)
        ]

    def _neighbour(self, index: int, distance: float) -> tuple[str, Label, float]:
        """Return the name, the class and the distance of a support photo."""
        assert self.support is not None
        return self.support.names[index], self.classes[self.support.labels[index]], float(distance)


def _check_finite(what: str, *values: Array) -> None:
    """Refuse results that are not finite: parameters may be finite and yet so large that arithmetic overflows."""
    if not all(np.isfinite(array).all() for array in values):
        raise UpdateFileError(
            f"The {what} of this classifier are not finite.",
            "Use an earlier version of it, or train it again.",
        )
