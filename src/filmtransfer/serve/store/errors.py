"""The errors of the store."""

from __future__ import annotations

from ...errors import FitError

OF_PROJECT = (
    "class",
    "photo",
    "training",
    "version",
)  # kinds of records that are found in their project only


class StoreError(FitError):
    """Base class of the store's errors."""


class NotFoundError(StoreError):
    """The record does not exist or belongs to another user; a caller cannot distinguish the two."""


class ConflictError(StoreError):
    """The current state of the records does not allow the operation."""


class QuotaError(StoreError):
    """The operation would exceed the user's quota."""


class StoreFullError(StoreError):
    """The disk is full; nothing was written."""


class StoreUnavailableError(StoreError):
    """The database or the object store does not respond."""

    exit_code = 5


class StoreDamagedError(StoreError):
    """A file of the store is damaged, or belongs to another program or to a newer filmtransfer."""

    exit_code = 4


def not_found(kind: str) -> NotFoundError:
    """Return the error for a record of this kind that does not exist."""
    if kind in OF_PROJECT:
        hint = "It may have been deleted, or belong to another project: name that one with ?project=ID."
    else:
        hint = "It may have been deleted; list them again."
    return NotFoundError(f"There is no such {kind}.", hint)
