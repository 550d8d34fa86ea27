"""The model, the predictor, and the file that holds what was learned for a task."""

from .adapted import AdaptedModel
from .body import Body
from .hardware import Hardware
from .ood import OODDetector
from .predictor import Explanation, Predictions, Predictor, Prior, log_posterior, log_prior
from .support import Label, Support
from .update import Update

__all__ = [
    "AdaptedModel",
    "Body",
    "Explanation",
    "Hardware",
    "Label",
    "OODDetector",
    "Predictions",
    "Predictor",
    "Prior",
    "Support",
    "Update",
    "log_posterior",
    "log_prior",
]
