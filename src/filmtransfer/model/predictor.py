"""From features to probabilities, rejections and explanations: the only code that does it.

    p(y=c | z) = softmax(logits / T + log π)_c

Temperature scaling divides the logits alone: the prior π says how often classes occur, not how confident the features
are. The estimator, the multi-user engine, the report, the export and federated evaluation all use a ``Predictor``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ..errors import InputError, invalid_choice
from ..heads import Head, State
from .ood import FALSE_ALARM, MIN_SCORES, OODDetector
from .support import Label, Support, no_statistics

Prior = Literal["uniform", "empirical"] | str | Sequence[float] | Tensor


def log_posterior(logits: Tensor, log_prior: Tensor | None = None, temperature: float = 1.0) -> Tensor:
    """Compute log p(y=c | z) (Q, C) of logits (Q, C) under log π (C), equal priors if None."""
    scaled = logits / temperature if temperature != 1 else logits
    return torch.log_softmax(scaled if log_prior is None else scaled + log_prior.to(scaled), dim=1)


def log_prior(prior: Prior, counts: Tensor | Sequence[int]) -> Tensor:
    """Compute log π_c (C) in float64: uniform, N_c/N, or given as C positive numbers."""
    counts = torch.as_tensor(counts)
    if isinstance(prior, str):
        if prior == "uniform":
            return torch.zeros(len(counts), dtype=torch.float64, device=counts.device)
        if prior == "empirical":
            return torch.log(counts.double() / counts.sum())
        raise invalid_choice("The prior", prior, ("uniform", "empirical", "an array of C numbers"))
    given = torch.as_tensor(prior, dtype=torch.float64, device=counts.device)
    if given.shape != counts.shape or not bool((given > 0).all()) or not bool(given.isfinite().all()):
        raise InputError(
            f"The prior has to be {len(counts)} positive numbers.", "One per class, in class order."
        )
    return torch.log(given / given.sum())


@dataclass(frozen=True, slots=True)
class Predictions:
    """What a classifier makes of B images."""

    features: Tensor  # (B, D)
    logits: Tensor  # (B, C), float64
    probabilities: Tensor  # (B, C), float64

    def __len__(self) -> int:
        return len(self.logits)

    @property
    def labels(self) -> Tensor:
        """The most probable class of each image (B), as an index."""
        return self.probabilities.argmax(1)

    @staticmethod
    def concatenate(parts: Sequence[Predictions]) -> Predictions:
        """Join the predictions of several batches."""
        return Predictions(
            torch.cat([part.features for part in parts]),
            torch.cat([part.logits for part in parts]),
            torch.cat([part.probabilities for part in parts]),
        )


@dataclass(frozen=True)
class Explanation:
    """Why an image was classified as it was, in the head's own metric."""

    distances: dict[Label, float]  # to each class mean, nearest first
    nearest: list[tuple[str, Label, float]]  # name, class and distance of support photos, nearest first


@dataclass(frozen=True, slots=True, eq=False)
class Predictor:
    """All that prediction needs beside the features: a head with its state, π, T and the OOD detector."""

    head: Head  # may be shared by many predictors; what belongs to this one is the state
    state: State
    classes: list[Label]
    log_prior: Tensor  # log π (C)
    temperature: float = 1.0  # T
    ood: OODDetector | None = None
    support: Support | None = None

    @classmethod
    def of(cls, head: Head, classes: Sequence[Label] = (), prior: Prior = "uniform") -> Predictor:
        """Return the predictor of a configured head without temperature scaling."""
        assert head.counts is not None
        names = list(classes) or head.classes.tolist()
        return cls(head, head.configured(), names, log_prior(prior, head.counts.cpu()))

    @torch.no_grad()
    def predict(self, features: Tensor) -> Predictions:
        """Compute logits and probabilities of features (B, D); they come back on the CPU."""
        logits = self.head.evaluate(self.state, features).cpu().double()
        return Predictions(features.cpu(), logits, self.posterior(logits))

    def posterior(self, logits: Tensor) -> Tensor:
        """Compute p(y=c | z) of logits (B, C)."""
        return self.log_posterior(logits).exp()

    def log_posterior(self, logits: Tensor) -> Tensor:
        """Compute log p(y=c | z) of logits (B, C)."""
        return log_posterior(logits, self.log_prior, self.temperature)

    def ood_scores(self, predictions: Predictions) -> Tensor:
        """Compute the OOD score of each image (B): the lower, the less it looks like any class."""
        return self._detector().scores(predictions.features, predictions.logits)

    def rejected(self, predictions: Predictions, false_alarm: float = FALSE_ALARM) -> Tensor:
        """Tell which images belong to none of the classes (B).

        ``false_alarm`` is the share of in-distribution images that may be rejected.
        """
        return self.ood_scores(predictions) < self._detector().threshold(false_alarm)

    def _detector(self) -> OODDetector:
        if self.ood is None:
            raise InputError(
                "This classifier cannot reject out-of-distribution images: it has fewer than "
                f"{MIN_SCORES} leave-one-out scores, or was made by an earlier version.",
                "Train it with two or more photos of each class.",
            )
        return self.ood

    @torch.no_grad()
    def explain(self, features: Tensor, photos: int = 3) -> list[Explanation]:
        """Explain features (B, D) by the distances to the class means and the nearest support photos."""
        if self.support is None:
            raise no_statistics("its predictions cannot be explained")
        support, queries = self.support.features.double(), features.cpu().double()
        labels, names = self.support.labels.tolist(), self.support.names
        metric = self.head.unconfigured().cpu()
        references = torch.cat([self.support.class_means(), support])
        to_means, to_photos = metric.distances(support, queries, references).tensor_split([-len(support)], 1)
        nearest = to_photos.topk(min(photos, len(support)), largest=False)
        return [
            Explanation(
                {self.classes[c]: row[c] for c in sorted(range(len(row)), key=row.__getitem__)},
                [(names[i], self.classes[labels[i]], far) for i, far in zip(index, values, strict=True)],
            )
            for row, index, values in zip(
                to_means.tolist(), nearest.indices.tolist(), nearest.values.tolist(), strict=True
            )
        ]
