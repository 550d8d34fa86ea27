"""What can go wrong, said so that a person knows what to do next.

Every error that a user can cause is a ``FitError``: ``message`` says what is wrong,
``hint`` what to do next, ``exit_code`` what the command returns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar


class FitError(Exception):
    """The parent of all errors a user of filmtransfer is meant to see."""

    exit_code: ClassVar[int] = 3

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message} {hint}".strip())
        self.message = message
        self.hint = hint


class UsageError(FitError):
    """An option or argument has a value that does not exist."""

    exit_code = 2


class InputError(FitError, ValueError):
    """The images or labels cannot be used as they are."""

    exit_code = 3


class UpdateFileError(FitError):
    """An update or weights file is damaged, or belongs to something else."""

    exit_code = 4


class UnavailableError(FitError):
    """Something that is not on this machine and cannot be fetched now."""

    exit_code = 5


class MissingExtraError(UnavailableError):
    """An optional dependency is not installed; the hint is its pip line."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            f"{what} needs an optional part of filmtransfer.",
            f"Install it with: pip install 'filmtransfer[{extra}]'",
        )


class FitWarning(UserWarning):
    """Something a user should know, though the work goes on."""


def choices(what: str, value: object, allowed: Iterable[object]) -> UsageError:
    """The error for an unknown value of an option with few values."""
    names = ", ".join(str(name) for name in allowed)
    return UsageError(f"{what} cannot be {value!r}.", f"Choose one of: {names}.")
