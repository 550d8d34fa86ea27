"""What can go wrong with the store."""

from __future__ import annotations

from ...errors import FitError


class StoreError(FitError):
    """The parent of the store's errors."""


class NotFoundError(StoreError):
    """There is no such thing, or it is another user's: from outside the two look the same."""


class ConflictError(StoreError):
    """It cannot be done in the state things are in."""


class QuotaError(StoreError):
    """The user's share of the room is used up."""


class StoreFullError(StoreError):
    """No room left on the disk; nothing was written."""


class StoreGoneError(StoreError):
    """The database or the object store cannot be reached now."""

    exit_code = 5


class StoreDamagedError(StoreError):
    """A file of the store is damaged, belongs to something else, or to a newer filmtransfer."""

    exit_code = 4


def no_such(what: str) -> NotFoundError:
    """The one line for all that is missing."""
    return NotFoundError(f"There is no such {what}.", "It may have been deleted; look at the list again.")
