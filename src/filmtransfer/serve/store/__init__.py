"""The store of the service: users, their classes and photos, the versions of their classifiers, and the training queue."""

from ...errors import MissingExtraError

try:
    import alembic
    import sqlalchemy
except ImportError:
    raise MissingExtraError("The store of the service", "serve") from None
del alembic, sqlalchemy

from .errors import (  # noqa: E402
    ConflictError,
    NotFoundError,
    QuotaError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
)
from .records import Event, ImageClass, JsonObject, Photo, Quota, Training, Usage, User, Version  # noqa: E402
from .store import Store, StoreLocation  # noqa: E402

__all__ = [
    "ConflictError",
    "Event",
    "ImageClass",
    "JsonObject",
    "NotFoundError",
    "Photo",
    "Quota",
    "QuotaError",
    "Store",
    "StoreDamagedError",
    "StoreError",
    "StoreFullError",
    "StoreLocation",
    "StoreUnavailableError",
    "Training",
    "Usage",
    "User",
    "Version",
]
