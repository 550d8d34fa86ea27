"""Revision 0001: the first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

Long = sa.BigInteger().with_variant(sa.Integer, "sqlite")
ACTIVE = sa.text("state IN ('waiting', 'running')")
metadata = sa.MetaData()


def _seq() -> sa.Column[int]:
    return sa.Column("seq", Long, primary_key=True, autoincrement=True)


def _id() -> sa.Column[str]:
    return sa.Column("id", sa.String(16), nullable=False, unique=True)


def _reference(table: str, name: str, primary_key: bool = False) -> sa.Column[str]:
    key = sa.ForeignKey(f"{table}.id", ondelete="CASCADE")
    return sa.Column(name, sa.String(16), key, nullable=False, primary_key=primary_key)


def _big(name: str, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=nullable)


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False)


def _number() -> sa.Column[int]:
    return sa.Column("number", sa.Integer, primary_key=True, autoincrement=False)


sa.Table(
    "fit_users",
    metadata,
    _seq(),
    _id(),
    _text("name"),
    _big("created"),
    sa.Column("token_digest", sa.String(64), nullable=False, unique=True),
    *(_big(f"quota_{unit}") for unit in ("classes", "photos", "bytes", "versions")),
    sa.Column("last_version", sa.Integer, nullable=False),
    sa.Column("current_version", sa.Integer),
)
sa.Table(
    "fit_classes",
    metadata,
    _seq(),
    _id(),
    _reference("fit_users", "user_id"),
    _text("name"),
    sa.UniqueConstraint("user_id", "name", name="fit_classes_one_name"),
)
sa.Table(
    "fit_photos",
    metadata,
    _seq(),
    _id(),
    _reference("fit_users", "user_id"),
    _reference("fit_classes", "class_id"),
    sa.Column("digest", sa.String(64), nullable=False),
    _big("bytes"),
    _text("media_type"),
    _big("created"),
    _text("content"),
    _text("thumbnail"),
    sa.UniqueConstraint("class_id", "digest", name="fit_photos_once"),
    sa.Index("fit_photos_of_user", "user_id", "seq"),
)
sa.Table(
    "fit_versions",
    metadata,
    _reference("fit_users", "user_id", primary_key=True),
    _number(),
    _big("created"),
    _big("bytes"),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("source", sa.String(16), nullable=False),
    _text("summary"),
    _text("content"),
)
sa.Table(
    "fit_trainings",
    metadata,
    _seq(),
    _id(),
    _reference("fit_users", "user_id"),
    sa.Column("state", sa.String(16), nullable=False),
    _text("options"),
    _big("created"),
    *(_big(name, nullable=True) for name in ("started", "ended")),
    _text("message"),
    sa.Column("worker", sa.Text),
    _big("lease", nullable=True),
    sa.Column("takes", sa.Integer, nullable=False),
    sa.Index("fit_trainings_of_user", "user_id", "seq"),
    sa.Index(
        "fit_trainings_one_active", "user_id", unique=True, sqlite_where=ACTIVE, postgresql_where=ACTIVE
    ),
    sa.Index("fit_trainings_queue", "seq", sqlite_where=ACTIVE, postgresql_where=ACTIVE),
)
sa.Table(
    "fit_events",
    metadata,
    _reference("fit_trainings", "training_id", primary_key=True),
    _number(),
    _text("kind"),
    _text("data"),
)
sa.Table(
    "fit_objects",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("content", sa.LargeBinary, nullable=False),
)
sa.Table(
    "fit_pending",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    _big("since"),
    sa.Column("doomed", sa.Boolean, nullable=False),
)


def upgrade() -> None:
    """Create the tables."""
    metadata.create_all(op.get_bind(), checkfirst=False)
