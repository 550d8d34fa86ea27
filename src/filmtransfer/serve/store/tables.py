"""The tables of the database. ``seq`` gives the order of creation; ``id`` is public.

``migrations/`` creates and upgrades them; a test checks that the two agree.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Long = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows by INTEGER only
DatabaseRow = Row[Any]


class Moment(TypeDecorator[datetime]):
    """A time in UTC, stored as integer microseconds: the same in every database, and sortable."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        """Return microseconds since 1970."""
        del dialect
        return None if value is None else (value - EPOCH) // timedelta(microseconds=1)

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        """Return the time of microseconds since 1970."""
        del dialect
        return None if value is None else EPOCH + timedelta(microseconds=value)


metadata = MetaData()


def _reference(table: str, name: str, primary_key: bool = False) -> Column[str]:
    key = ForeignKey(f"{table}.id", ondelete="CASCADE")
    return Column(name, String(16), key, nullable=False, primary_key=primary_key)


users = Table(
    "fit_users",
    metadata,
    Column("seq", Long, primary_key=True, autoincrement=True),
    Column("id", String(16), nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("created", Moment, nullable=False),
    Column("token_digest", String(64), nullable=False, unique=True),
    Column("quota_classes", BigInteger, nullable=False),
    Column("quota_photos", BigInteger, nullable=False),
    Column("quota_bytes", BigInteger, nullable=False),
    Column("quota_versions", BigInteger, nullable=False),
)

projects = Table(  # every user has at least one
    "fit_projects",
    metadata,
    Column("seq", Long, primary_key=True, autoincrement=True),
    Column("id", String(16), nullable=False, unique=True),
    _reference("fit_users", "user_id"),
    Column("name", Text, nullable=False),
    Column("created", Moment, nullable=False),
    Column("last_version", Integer, nullable=False),  # the highest number ever used
    Column("current_version", Integer),
    Index("fit_projects_of_user", "user_id", "seq"),
)

classes = Table(
    "fit_classes",
    metadata,
    Column("seq", Long, primary_key=True, autoincrement=True),
    Column("id", String(16), nullable=False, unique=True),
    _reference("fit_projects", "project_id"),
    Column("name", Text, nullable=False),
    UniqueConstraint("project_id", "name", name="fit_classes_one_name"),
)

photos = Table(
    "fit_photos",
    metadata,
    Column("seq", Long, primary_key=True, autoincrement=True),
    Column("id", String(16), nullable=False, unique=True),
    _reference("fit_projects", "project_id"),
    _reference("fit_classes", "class_id"),
    Column("digest", String(64), nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("created", Moment, nullable=False),
    Column("content", Text, nullable=False),  # name of the object
    Column("thumbnail", Text, nullable=False),  # name of the object
    UniqueConstraint("class_id", "digest", name="fit_photos_once"),
    Index("fit_photos_of_project", "project_id", "seq"),
)

versions = Table(
    "fit_versions",
    metadata,
    _reference("fit_projects", "project_id", primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("created", Moment, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("source", String(16), nullable=False),
    Column("summary", Text, nullable=False),  # JSON
    Column("content", Text, nullable=False),  # name of the object
)

ACTIVE = text("state IN ('waiting', 'running')")

trainings = Table(
    "fit_trainings",
    metadata,
    Column("seq", Long, primary_key=True, autoincrement=True),
    Column("id", String(16), nullable=False, unique=True),
    _reference("fit_projects", "project_id"),
    Column("state", String(16), nullable=False),
    Column("options", Text, nullable=False),  # JSON
    Column("created", Moment, nullable=False),
    Column("started", Moment),
    Column("ended", Moment),
    Column("message", Text, nullable=False),
    Column("worker", Text),
    Column("lease", Moment),  # when the claim of its worker expires
    Column("takes", Integer, nullable=False),  # how many workers have claimed it
    Index("fit_trainings_of_project", "project_id", "seq"),
    Index("fit_trainings_queue", "seq", sqlite_where=ACTIVE, postgresql_where=ACTIVE),
)

events = Table(
    "fit_events",
    metadata,
    _reference("fit_trainings", "training_id", primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("data", Text, nullable=False),  # JSON
)

objects = Table(  # the bytes, if they are stored in the database
    "fit_objects",
    metadata,
    Column("name", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

pending = Table(  # objects that no row refers to: being written, or to be deleted
    "fit_pending",
    metadata,
    Column("name", Text, primary_key=True),
    Column("since", Moment, nullable=False),
    Column("doomed", Boolean, nullable=False),
)
