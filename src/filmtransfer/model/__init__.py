"""The model and the file that holds what was learned for it."""

from .adapted import AdaptedModel
from .body import Body
from .hardware import Hardware
from .support import Support
from .update import Update

__all__ = ["AdaptedModel", "Body", "Hardware", "Support", "Update"]
