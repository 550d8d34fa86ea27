"""The model, the predictor, and the file that holds what was learned for a task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy_names
from .body import Body
from .estimate import Estimate, describe_estimate
from .ood import OODDetector
from .predictor import Explanation, FeaturePredictor, Predictions, Prior, log_posterior, log_prior
from .support import Label, Support
from .update import Update

if TYPE_CHECKING:
    from .adapted import AdaptedModel
    from .hardware import Hardware

__all__ = [
    "AdaptedModel",
    "Body",
    "Estimate",
    "Explanation",
    "FeaturePredictor",
    "Hardware",
    "Label",
    "OODDetector",
    "Predictions",
    "Prior",
    "Support",
    "Update",
    "describe_estimate",
    "log_posterior",
    "log_prior",
]

# These need torch.
__getattr__ = lazy_names(__name__, {"adapted": ("AdaptedModel",), "hardware": ("Hardware",)})
