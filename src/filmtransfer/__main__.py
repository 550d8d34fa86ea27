"""``python -m filmtransfer`` is the command ``fit``."""

from .cli import run

run()
