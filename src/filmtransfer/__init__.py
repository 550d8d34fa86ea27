"""FiLM Transfer: a few photos per class in, a classifier of a hundred kilobytes out."""

from .errors import FitError, FitWarning, InputError, UnavailableError, UpdateFileError, UsageError
from .estimator import FewShotClassifier
from .features import FeatureClassifier
from .model import Update

__version__ = "0.1.0"

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
