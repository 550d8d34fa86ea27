"""The tables. ``seq`` gives the order of making; ``id`` is what others may see.

How a database gets them is in ``migrations/``; a test keeps the two equal.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

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
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Long = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows by an INTEGER only


class Moment(TypeDecorator[datetime]):
    """A time in UTC, kept as whole microseconds: the same in every database, and it sorts."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        del dialect
        return None if value is None else (value - EPOCH) // timedelta(microseconds=1)

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        del dialect
        return None if value is None else EPOCH + timedelta(microseconds=value)


metadata = MetaData()


def _user() -> Column[str]:
    return Column("user_id", String(16), ForeignKey("fit_users.id", ondelete="CASCADE"), nullable=False)


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
    Column("last_version", Integer, nullable=False),  # the highest number ever given
    Column("current_version", Integer),
)

classes = Table(
    "fit_classes",
    metadata,
    Column("seq", Long, primary_key=True, autoincrement=True),
    Column("id", String(16), nullable=False, unique=True),
    _user(),
    Column("name", Text, nullable=False),
    UniqueConstraint("user_id", "name", name="fit_classes_one_name"),
)

photos = Table(
    "fit_photos",
    metadata,
    Column("seq", Long, primary_key=True, autoincrement=True),
    Column("id", String(16), nullable=False, unique=True),
    _user(),
    Column("class_id", String(16), ForeignKey("fit_classes.id", ondelete="CASCADE"), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("created", Moment, nullable=False),
    Column("content", Text, nullable=False),  # name of the object
    Column("thumbnail", Text, nullable=False),  # name of the object
    UniqueConstraint("class_id", "digest", name="fit_photos_once"),
    Index("fit_photos_of_user", "user_id", "seq"),
)

versions = Table(
    "fit_versions",
    metadata,
    Column(
        "user_id",
        String(16),
        ForeignKey("fit_users.id", ondelete="CASCADE"),
        primary_key=True,
        nullable=False,
    ),
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
    _user(),
    Column("state", String(16), nullable=False),
    Column("options", Text, nullable=False),  # JSON
    Column("created", Moment, nullable=False),
    Column("started", Moment),
    Column("ended", Moment),
    Column("message", Text, nullable=False),
    Column("worker", Text),
    Column("lease", Moment),  # until then it is its worker's
    Column("takes", Integer, nullable=False),  # how many workers have had it
    Index("fit_trainings_of_user", "user_id", "seq"),
    Index("fit_trainings_one_active", "user_id", unique=True, sqlite_where=ACTIVE, postgresql_where=ACTIVE),
    Index("fit_trainings_queue", "seq", sqlite_where=ACTIVE, postgresql_where=ACTIVE),
)

events = Table(
    "fit_events",
    metadata,
    Column(
        "training_id",
        String(16),
        ForeignKey("fit_trainings.id", ondelete="CASCADE"),
        primary_key=True,
        nullable=False,
    ),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("data", Text, nullable=False),  # JSON
)

objects = Table(  # the bytes, when they are kept beside the rows
    "fit_objects",
    metadata,
    Column("name", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

pending = Table(  # names of objects that no row speaks of: about to be written, or to be deleted
    "fit_pending",
    metadata,
    Column("name", Text, primary_key=True),
    Column("since", Moment, nullable=False),
    Column("doomed", Boolean, nullable=False),
)
