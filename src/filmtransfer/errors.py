"""Errors and warnings that a user is meant to see.

Every error that a user can cause is a ``FitError``: ``message`` says what is wrong, ``hint`` what to do next,
and ``exit_code`` is what the command returns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from typing import ClassVar


class FitError(Exception):
    """The base class of all errors that a user of filmtransfer can cause."""

    exit_code: ClassVar[int] = 3

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message} {hint}".strip())
        self.message = message
        self.hint = hint


class UsageError(FitError):
    """An option or argument has an invalid value."""

    exit_code = 2


class InputError(FitError, ValueError):
    """The images or labels cannot be used as they are."""

    exit_code = 3


class UpdateFileError(FitError):
    """An update or weights file is damaged or belongs to another backbone."""

    exit_code = 4


class UnavailableError(FitError):
    """A required resource is neither on this machine nor can it be downloaded now."""

    exit_code = 5


class MissingExtraError(UnavailableError):
    """An optional dependency is not installed; the hint is the pip command that installs it."""

    def __init__(self, what: str, extra: str) -> None:
        from .installation import extra_command  # here, because reading package metadata takes time

        super().__init__(
            f"{what} needs an optional part of filmtransfer.", f"Install it with: {extra_command(extra)}"
        )


class FitWarning(UserWarning):
    """Something the user should know, although the work continues."""


class SkippedImageWarning(FitWarning):
    """Some images could not be used; commands list them one by one instead."""


def check_choice(what: str, value: object, allowed: Collection[object]) -> None:
    """Raise an error for a value that is not among the allowed values of an option."""
    if value not in list(allowed):  # a list: values of a file need not be hashable
        raise invalid_choice(what, value, allowed)


def check_count(name: str, value: object, minimum: int = 1) -> None:
    """Raise an error for a value that is not a whole number of at least ``minimum``."""
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise UsageError(f"{name} cannot be {value!r}.", f"It is a whole number of at least {minimum}.")


def check_number(name: str, value: object, valid: Callable[[float], bool], allowed: str) -> None:
    """Raise an error for a value that is no finite number or not ``valid``; ``allowed`` says in words what is."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not -math.inf < value < math.inf or not valid(value):  # type: ignore[operator, arg-type]
        raise UsageError(f"{name} cannot be {value!r}.", f"It is {allowed}.")


def check_flag(name: str, value: object) -> None:
    """Raise an error for a value that is not a boolean, such as the text "False", which would count as true."""
    if not isinstance(value, bool):
        raise UsageError(f"{name} cannot be {value!r}.", "It is true or false.")


def first_line(error: Exception) -> str:
    """Return the first line of an error message, shortened."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]


def invalid_choice(what: str, value: object, allowed: Iterable[object]) -> UsageError:
    """Return the error for a value that is not among the allowed values of an option."""
    names = ", ".join(str(name) for name in allowed)
    return UsageError(f"{what} cannot be {value!r}.", f"Choose one of: {names}.")
