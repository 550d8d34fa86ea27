"""The store of personal models: users, their photos, their updates, and the queue of trainings."""

from ...errors import MissingExtraError

try:
    import alembic
    import sqlalchemy
except ImportError:
    raise MissingExtraError("The store of personal models", "serve") from None
del alembic, sqlalchemy

from .errors import (  # noqa: E402
    ConflictError,
    NotFoundError,
    QuotaError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    StoreGoneError,
)
from .place import Place  # noqa: E402
from .records import ClassRow, Event, Photo, Quota, Training, Used, User, Version  # noqa: E402
from .store import Store  # noqa: E402

__all__ = [
    "ClassRow",
    "ConflictError",
    "Event",
    "NotFoundError",
    "Photo",
    "Place",
    "Quota",
    "QuotaError",
    "Store",
    "StoreDamagedError",
    "StoreError",
    "StoreFullError",
    "StoreGoneError",
    "Training",
    "Used",
    "User",
    "Version",
]
