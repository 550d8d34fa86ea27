"""Revision 0002: a user has several projects; what existed becomes one project of each user.

SQLite cannot change the table that a foreign key refers to, so new tables are made and the rows are copied. Foreign
keys stay on: a table is dropped after those that refer to it, so that no row is deleted by a cascade. The bytes of photos
and update files are not touched.
"""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

PROJECT_NAME = "My classifier"
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


def _string(name: str, length: int, unique: bool | None = None) -> sa.Column[str]:
    return sa.Column(name, sa.String(length), nullable=False, unique=unique)


def _number() -> sa.Column[int]:
    return sa.Column("number", sa.Integer, primary_key=True, autoincrement=False)


users = sa.Table(
    "fit_users",
    metadata,
    _seq(),
    _id(),
    _text("name"),
    _big("created"),
    _string("token_digest", 64, unique=True),
    *(_big(f"quota_{unit}") for unit in ("classes", "photos", "bytes", "versions")),
)
projects = sa.Table(
    "fit_projects",
    metadata,
    _seq(),
    _id(),
    _reference("fit_users", "user_id"),
    _text("name"),
    _big("created"),
    sa.Column("last_version", sa.Integer, nullable=False),
    sa.Column("current_version", sa.Integer),
    sa.Index("fit_projects_of_user", "user_id", "seq"),
)
classes = sa.Table(
    "fit_classes",
    metadata,
    _seq(),
    _id(),
    _reference("fit_projects", "project_id"),
    _text("name"),
    sa.UniqueConstraint("project_id", "name", name="fit_classes_one_name"),
)
photos = sa.Table(
    "fit_photos",
    metadata,
    _seq(),
    _id(),
    _reference("fit_projects", "project_id"),
    _reference("fit_classes", "class_id"),
    _string("digest", 64),
    _big("bytes"),
    _text("media_type"),
    _big("created"),
    _text("content"),
    _text("thumbnail"),
    sa.UniqueConstraint("class_id", "digest", name="fit_photos_once"),
    sa.Index("fit_photos_of_project", "project_id", "seq"),
)
versions = sa.Table(
    "fit_versions",
    metadata,
    _reference("fit_projects", "project_id", primary_key=True),
    _number(),
    _big("created"),
    _big("bytes"),
    _string("digest", 64),
    _string("source", 16),
    _text("summary"),
    _text("content"),
)
trainings = sa.Table(
    "fit_trainings",
    metadata,
    _seq(),
    _id(),
    _reference("fit_projects", "project_id"),
    _string("state", 16),
    _text("options"),
    _big("created"),
    *(_big(name, nullable=True) for name in ("started", "ended")),
    _text("message"),
    sa.Column("worker", sa.Text),
    _big("lease", nullable=True),
    sa.Column("takes", sa.Integer, nullable=False),
    sa.Index("fit_trainings_of_project", "project_id", "seq"),
    sa.Index("fit_trainings_queue", "seq", sqlite_where=ACTIVE, postgresql_where=ACTIVE),
)
events = sa.Table(
    "fit_events",
    metadata,
    _reference("fit_trainings", "training_id", primary_key=True),
    _number(),
    _text("kind"),
    _text("data"),
)

OLD_INDEXES = (
    "fit_photos_of_user",
    "fit_trainings_of_user",
    "fit_trainings_one_active",
    "fit_trainings_queue",
)
OLD_CONSTRAINTS = (("fit_classes", "fit_classes_one_name"), ("fit_photos", "fit_photos_once"))
COPIED = (users, classes, photos, versions, trainings, events)  # a table after those that it refers to


def upgrade() -> None:
    """Make new tables with a project for each user, and copy the rows."""
    connection = op.get_bind()
    is_postgres = connection.dialect.name == "postgresql"
    for index in OLD_INDEXES:  # the names of indexes belong to the database, not to a table
        op.drop_index(index)
    if is_postgres:  # so do those of constraints
        for name, constraint in OLD_CONSTRAINTS:
            op.drop_constraint(constraint, name)
    for table in COPIED:
        op.rename_table(table.name, _former(table))
    metadata.create_all(connection, checkfirst=False)
    for table in COPIED:
        _copy(connection, table)
        if table is users:
            _add_projects(connection)
    for table in reversed(COPIED):
        op.drop_table(_former(table))
    if is_postgres:
        for table in metadata.tables.values():
            if "seq" in table.c:  # its rows have numbers that the new sequence does not know
                _continue_sequence(connection, table.name)


def _former(table: sa.Table) -> str:
    return f"{table.name}_0001"


def _add_projects(connection: sa.Connection) -> None:
    """Give each user a project, in the order of the users."""
    former = sa.table(
        _former(users), *(sa.column(n) for n in ("seq", "id", "created", "last_version", "current_version"))
    )
    for user in connection.execute(sa.select(former).order_by(former.c.seq)).all():
        connection.execute(
            sa.insert(projects).values(
                id=secrets.token_hex(8), user_id=user.id, name=PROJECT_NAME, created=user.created,
                last_version=user.last_version, current_version=user.current_version,
            )
        )  # fmt: skip


def _copy(connection: sa.Connection, table: sa.Table) -> None:
    """Copy all rows; what belonged to a user belongs to the user's project."""
    names = [column.name for column in table.c]
    former = sa.table(_former(table), *(sa.column("user_id" if n == "project_id" else n) for n in names))
    query = sa.select(*(projects.c.id if n == "project_id" else former.c[n] for n in names))
    if "project_id" in names:
        query = query.join_from(former, projects, former.c.user_id == projects.c.user_id)
    connection.execute(sa.insert(table).from_select(names, query))


def _continue_sequence(connection: sa.Connection, table: str) -> None:
    sequence = f"pg_get_serial_sequence('{table}', 'seq')"
    connection.execute(
        sa.text(f"SELECT setval({sequence}, COALESCE(MAX(seq), 1), MAX(seq) IS NOT NULL) FROM {table}")
    )
