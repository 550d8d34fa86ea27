"""The command ``fit``: parse, call, print."""

from __future__ import annotations

import atexit
import os
import sys
from typing import NoReturn

__all__ = ["main", "run"]

INTERRUPTED = 130


def run() -> NoReturn:
    """Run the command and end the process with its exit code."""
    code = main()
    if code == INTERRUPTED:
        # Where Ctrl-C met an extension module that was being imported, the interpreter would end by the signal although
        # the KeyboardInterrupt was handled (it remembers it as unhandled): exit code -2 instead of 130.
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code; Ctrl-C is reported in a line even while modules are imported."""
    try:
        from .app import main as run_app

        return run_app(arguments)
    except KeyboardInterrupt:
        print("fit: Interrupted.", file=sys.stderr)
        return INTERRUPTED
