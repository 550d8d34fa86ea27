"""Revision 0001: the first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

Long = sa.BigInteger().with_variant(sa.Integer, "sqlite")
ACTIVE = sa.text("state IN ('waiting', 'running')")


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


def upgrade() -> None:
    """Create the tables."""
    _create_users()
    _create_photos()
    op.create_table(
        "fit_versions",
        _reference("fit_users", "user_id", primary_key=True),
        _number(),
        _big("created"),
        _big("bytes"),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("source", sa.String(16), nullable=False),
        _text("summary"),
        _text("content"),
    )
    _create_trainings()
    op.create_table(
        "fit_objects",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "fit_pending",
        sa.Column("name", sa.Text, primary_key=True),
        _big("since"),
        sa.Column("doomed", sa.Boolean, nullable=False),
    )


def downgrade() -> None:
    """Drop the tables."""
    for table in (
        "pending", "objects", "events", "trainings", "versions", "photos", "classes", "users",
    ):  # fmt: skip
        op.drop_table(f"fit_{table}")


def _create_users() -> None:
    op.create_table(
        "fit_users",
        _seq(),
        _id(),
        _text("name"),
        _big("created"),
        sa.Column("token_digest", sa.String(64), nullable=False, unique=True),
        *(_big(f"quota_{unit}") for unit in ("classes", "photos", "bytes", "versions")),
        sa.Column("last_version", sa.Integer, nullable=False),
        sa.Column("current_version", sa.Integer),
    )


def _create_photos() -> None:
    op.create_table(
        "fit_classes",
        _seq(),
        _id(),
        _reference("fit_users", "user_id"),
        _text("name"),
        sa.UniqueConstraint("user_id", "name", name="fit_classes_one_name"),
    )
    op.create_table(
        "fit_photos",
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
    )
    op.create_index("fit_photos_of_user", "fit_photos", ["user_id", "seq"])


def _create_trainings() -> None:
    op.create_table(
        "fit_trainings",
        _seq(),
        _id(),
        _reference("fit_users", "user_id"),
        sa.Column("state", sa.String(16), nullable=False),
        _text("options"),
        _big("created"),
        _big("started", nullable=True),
        _big("ended", nullable=True),
        _text("message"),
        sa.Column("worker", sa.Text),
        _big("lease", nullable=True),
        sa.Column("takes", sa.Integer, nullable=False),
    )
    op.create_index("fit_trainings_of_user", "fit_trainings", ["user_id", "seq"])
    op.create_index(
        "fit_trainings_one_active", "fit_trainings", ["user_id"], unique=True,
        sqlite_where=ACTIVE, postgresql_where=ACTIVE,
    )  # fmt: skip
    op.create_index(
        "fit_trainings_queue", "fit_trainings", ["seq"], sqlite_where=ACTIVE, postgresql_where=ACTIVE
    )
    op.create_table(
        "fit_events",
        _reference("fit_trainings", "training_id", primary_key=True),
        _number(),
        _text("kind"),
        _text("data"),
    )
