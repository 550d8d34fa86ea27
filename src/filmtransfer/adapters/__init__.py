"""FiLM and the adapters it is compared with, under one roof: attach by name, learn, count."""

from .attach import ADAPTERS, attach, complete_options, count

__all__ = ["ADAPTERS", "attach", "count", "complete_options"]
