"""Migrate a database to the tables of this version.

The migration is one transaction under a lock: of two processes that open a new database at once, one creates the tables
and the other finds them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext, MigrationStep
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from .database import APPLICATION, Database, responding_within
from .errors import StoreDamagedError
from .tables import metadata

TABLE = "fit_revision"
FOLDER = Path(__file__).with_name("migrations")
MIGRATION_SECONDS = 3600.0  # in which PostgreSQL has to finish a statement of a migration


def migrate(database: Database) -> None:
    """Create or upgrade the tables, unless they are up to date."""
    scripts = ScriptDirectory(str(FOLDER), version_locations=[str(FOLDER)])
    head = scripts.get_current_head()
    with database.read() as connection:
        if _revision(connection) == head:
            return
    with responding_within(MIGRATION_SECONDS), database.write() as connection:
        if database.is_sqlite:
            connection.execute(text(f"PRAGMA application_id={APPLICATION}"))
        else:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": APPLICATION})
        revision = _revision(connection)
        if revision is not None and revision not in {script.revision for script in scripts.walk_revisions()}:
            raise StoreDamagedError(
                f"The database was written by a newer filmtransfer (its tables have revision {revision}; this one knows {head}).",
                "Install that version, or restore an earlier backup.",
            )
        if revision != head:
            _upgrade(connection, scripts)


def is_migrated(database: Database) -> bool:
    """Return whether the database has the tables of a store, of any version."""
    with database.read() as connection:
        return _revision(connection) is not None


def _revision(connection: Connection) -> str | None:
    context = MigrationContext.configure(connection, opts={"version_table": TABLE})
    revision: str | None = context.get_current_revision()
    return revision


def _upgrade(connection: Connection, scripts: ScriptDirectory) -> None:
    """Run ``alembic upgrade head`` on the connection that holds the lock."""

    def steps(revision: str, context: MigrationContext) -> Iterable[MigrationStep]:
        del context
        return scripts._upgrade_revs("head", revision)

    environment = EnvironmentContext(Config(), scripts, fn=steps)
    with environment:
        environment.configure(connection=connection, target_metadata=metadata, version_table=TABLE)
        environment.run_migrations()
