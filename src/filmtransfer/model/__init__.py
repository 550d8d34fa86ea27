"""The model and the file that holds what was learned for it."""

from .adapted import AdaptedModel
from .hardware import Hardware
from .update import Update

__all__ = ["AdaptedModel", "Hardware", "Update"]
