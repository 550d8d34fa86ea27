"""FiLM and the adapters it is compared with, under one roof: attach by name, learn, count."""

from .attach import ADAPTERS, attach, count, options_of

__all__ = ["ADAPTERS", "attach", "count", "options_of"]
