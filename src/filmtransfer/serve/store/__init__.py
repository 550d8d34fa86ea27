"""The store of the service: users, their projects with classes, photos and versions, and the training queue."""

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
from .records import (  # noqa: E402
    Event,
    ImageClass,
    JsonObject,
    Photo,
    Project,
    ProjectId,
    Quota,
    Training,
    Usage,
    User,
    Version,
)
from .store import Store, StoreLocation  # noqa: E402

__all__ = [
    "ConflictError",
    "Event",
    "ImageClass",
    "JsonObject",
    "NotFoundError",
    "Photo",
    "Project",
    "ProjectId",
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
