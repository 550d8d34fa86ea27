"""FiLM and the adapters of the paper's comparison, each attached to a backbone by its name."""

from .registry import ADAPTERS, attach, complete_options

__all__ = ["ADAPTERS", "attach", "complete_options"]
