"""FiLM Transfer: a few photos per class in, a classifier of a hundred kilobytes out.

Names are imported when they are first used, so that ``fit --help`` does not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import FitError, FitWarning, InputError, UnavailableError, UpdateFileError, UsageError
    from .estimator import FewShotClassifier
    from .features import FeatureClassifier
    from .model import Update

__version__ = "0.1.0"

_HOMES = {
    "FeatureClassifier": "features",
    "FewShotClassifier": "estimator",
    "FitError": "errors",
    "FitWarning": "errors",
    "InputError": "errors",
    "UnavailableError": "errors",
    "Update": "model",
    "UpdateFileError": "errors",
    "UsageError": "errors",
}

__all__ = [
    "FeatureClassifier",
    "FewShotClassifier",
    "FitError",
    "FitWarning",
    "InputError",
    "UnavailableError",
    "Update",
    "UpdateFileError",
    "UsageError",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'filmtransfer' has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
