"""The command ``fit``: parse, call, print."""

from .app import main

__all__ = ["main"]
