"""The log of the service: a file of limited size, which loses lines on a full disk instead of ending the service."""

from __future__ import annotations

import logging
import sys
import warnings
from contextlib import ExitStack, suppress
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from ..files import open_private
from ..formatting import printable

MAX_BYTES = 10_000_000
BACKUPS = 3


class LogFile(RotatingFileHandler):
    """A log file that only its owner can read, and whose lines a terminal can show.

    A line that cannot be written has no traceback; the log continues when the disk has space.
    """

    def __init__(self, file: Path) -> None:
        super().__init__(file, maxBytes=MAX_BYTES, backupCount=BACKUPS, encoding="utf-8")
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))

    def _open(self) -> TextIOWrapper:
        return open(open_private(self.baseFilename), "a", encoding=self.encoding)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        return printable(super().format(record))

    def handleError(self, record: logging.LogRecord) -> None:
        """Ignore an error of the disk."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)

    def close(self) -> None:
        """Close the file; what was not written by then is lost."""
        with suppress(OSError):
            super().close()


def log_to(file: Path, stack: ExitStack) -> None:
    """Write requests and errors to a log file until the stack ends."""
    handler = LogFile(file)
    stack.callback(handler.close)
    for name, level in (("filmtransfer.serve", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.addHandler(handler)
        logger.propagate = False
        stack.callback(logger.removeHandler, handler)
    warnings.filterwarnings("ignore", module="PIL")
