"""The conventions of scikit-learn's classifiers, without importing scikit-learn, which takes half a second.

``clone``, ``cross_val_score``, pipelines and searches recognise an estimator by its methods, not by its base class.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Self


class ScikitClassifier:
    """A classifier whose parameters are the arguments of its constructor, stored under their names."""

    @classmethod
    def _parameters(cls) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(cls).parameters

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002  (no parameter has parameters)
        """Return the parameters by name."""
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name."""
        unknown = [name for name in parameters if name not in self._parameters()]
        if unknown:
            raise ValueError(
                f"Invalid parameter {unknown[0]!r} for estimator {self}. "
                f"Valid parameters are: {sorted(self._parameters())}."
            )
        for name, value in parameters.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        changed = [
            f"{name}={getattr(self, name)!r}"
            for name, parameter in self._parameters().items()
            if repr(getattr(self, name)) != repr(parameter.default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            regressor_tags=None,
            transformer_tags=None,
        )


def check_is_fitted(classifier: ScikitClassifier) -> None:
    """Raise scikit-learn's NotFittedError if ``fit`` has not been called."""
    if not hasattr(classifier, "classes_"):
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(
            f"This {type(classifier).__name__} instance is not fitted yet. Call 'fit' before using it."
        )
