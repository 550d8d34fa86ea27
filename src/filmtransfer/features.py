"""The heads as scikit-learn classifiers on plain feature vectors."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .heads import make_head


class FeatureClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """ProtoNets, LDA, QDA or Linear on a matrix of features (N, D)."""

    def __init__(self, head: str = "lda", prior: Any = "uniform") -> None:
        self.head = head
        self.prior = prior

    def fit(self, X: Any, y: Any) -> Self:
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("A classifier needs at least 2 classes; there is only 1 class in y.")
        features = torch.from_numpy(X.copy())
        with torch.no_grad():
            self.head_ = make_head(self.head).to(features.dtype).configure(features, torch.from_numpy(labels))
        return self

    def predict_log_proba(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        prior: Any = self.prior if isinstance(self.prior, str) else torch.as_tensor(self.prior)
        state = self.head_.configured()[0]
        with torch.no_grad():
            out: np.ndarray = self.head_.log_probabilities(
                torch.from_numpy(X.copy()).to(state), prior
            ).numpy()
        return out

    def predict_proba(self, X: Any) -> np.ndarray:
        chances: np.ndarray = np.exp(self.predict_log_proba(X))
        return chances

    def predict(self, X: Any) -> np.ndarray:
        best = self.predict_log_proba(X).argmax(1)  # first: it says so if this is not fitted
        chosen: np.ndarray = self.classes_[best]
        return chosen
