"""The model and the file that holds what was learned for it."""

from .adapted import AdaptedModel
from .update import Update

__all__ = ["AdaptedModel", "Update"]
