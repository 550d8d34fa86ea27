"""The heads as scikit-learn classifiers on plain feature vectors."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .heads import HeadName, make_head
from .model import FeaturePredictor, Prior


class FeatureClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """One of the heads on a matrix of features (N, D)."""

    def __init__(self, head: HeadName = "lda", prior: Prior = "uniform") -> None:
        self.head = head
        self.prior = prior

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Build the head from features (N, D) and labels (N)."""
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("A classifier needs at least 2 classes; there is only 1 class in y.")
        self.head_ = make_head(self.head).configure(np.array(X), labels)
        return self

    def _log_posterior(self, X: ArrayLike) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        features = np.array(X, self.head_.configured()[0].dtype)
        predictor = FeaturePredictor.of(self.head_, prior=self.prior)
        log_posterior: np.ndarray = predictor.log_posterior(predictor.predict(features).logits)
        return log_posterior

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Return p(y=c | z) (N, C)."""
        return np.asarray(np.exp(self._log_posterior(X)))

    def predict_log_proba(self, X: ArrayLike) -> np.ndarray:
        """Return log p(y=c | z) (N, C)."""
        return self._log_posterior(X)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the most probable class of each row."""
        best = self.predict_proba(X).argmax(1)  # first: an error if this is not fitted
        chosen: np.ndarray = self.classes_[best]
        return chosen
