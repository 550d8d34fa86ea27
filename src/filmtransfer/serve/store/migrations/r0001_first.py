"""The first tables."""

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


def _of(table: str, name: str, primary_key: bool = False) -> sa.Column[str]:
    key = sa.ForeignKey(f"{table}.id", ondelete="CASCADE")
    return sa.Column(name, sa.String(16), key, nullable=False, primary_key=primary_key)


def upgrade() -> None:
    op.create_table(
        "fit_users",
        _seq(),
        _id(),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("token_digest", sa.String(64), nullable=False, unique=True),
        sa.Column("quota_classes", sa.BigInteger, nullable=False),
        sa.Column("quota_photos", sa.BigInteger, nullable=False),
        sa.Column("quota_bytes", sa.BigInteger, nullable=False),
        sa.Column("quota_versions", sa.BigInteger, nullable=False),
        sa.Column("last_version", sa.Integer, nullable=False),
        sa.Column("current_version", sa.Integer),
    )
    op.create_table(
        "fit_classes",
        _seq(),
        _id(),
        _of("fit_users", "user_id"),
        sa.Column("name", sa.Text, nullable=False),
        sa.UniqueConstraint("user_id", "name", name="fit_classes_one_name"),
    )
    op.create_table(
        "fit_photos",
        _seq(),
        _id(),
        _of("fit_users", "user_id"),
        _of("fit_classes", "class_id"),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("media_type", sa.Text, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("thumbnail", sa.Text, nullable=False),
        sa.UniqueConstraint("class_id", "digest", name="fit_photos_once"),
    )
    op.create_index("fit_photos_of_user", "fit_photos", ["user_id", "seq"])
    op.create_table(
        "fit_versions",
        _of("fit_users", "user_id", primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("source", sa.String(16), nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
    )
    op.create_table(
        "fit_trainings",
        _seq(),
        _id(),
        _of("fit_users", "user_id"),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("options", sa.Text, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("started", sa.BigInteger),
        sa.Column("ended", sa.BigInteger),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("worker", sa.Text),
        sa.Column("lease", sa.BigInteger),
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
        _of("fit_trainings", "training_id", primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
    )
    op.create_table(
        "fit_objects",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "fit_pending",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("since", sa.BigInteger, nullable=False),
        sa.Column("doomed", sa.Boolean, nullable=False),
    )


def downgrade() -> None:
    for table in (
        "pending", "objects", "events", "trainings", "versions", "photos", "classes", "users",
    ):  # fmt: skip
        op.drop_table(f"fit_{table}")
