"""FiLM Transfer: a few photos per class in, a classifier of a hundred kilobytes out.

Names are imported when they are first used, so that ``fit --help`` does not wait for torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import lazy_names

if TYPE_CHECKING:
    from .errors import FitError, FitWarning, InputError, UnavailableError, UpdateFileError, UsageError
    from .estimator import FewShotClassifier
    from .features import FeatureClassifier
    from .model import Update
    from .predictor import Predictor
    from .training.callbacks import Callbacks, Progress

__version__ = "0.1.0"

__all__ = [
    "Callbacks",
    "FeatureClassifier",
    "FewShotClassifier",
    "FitError",
    "FitWarning",
    "InputError",
    "Predictor",
    "Progress",
    "UnavailableError",
    "Update",
    "UpdateFileError",
    "UsageError",
    "__version__",
]

__getattr__ = lazy_names(
    __name__,
    {
        "errors": (
            "FitError",
            "FitWarning",
            "InputError",
            "UnavailableError",
            "UpdateFileError",
            "UsageError",
        ),
        "estimator": ("FewShotClassifier",),
        "features": ("FeatureClassifier",),
        "model": ("Update",),
        "predictor": ("Predictor",),
        "training.callbacks": ("Callbacks", "Progress"),
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
