"""The versions of projects' classifiers.

The number of the current version is stored in the project's row: there is never more than one, and changing it is one
write.
"""

from __future__ import annotations

import hashlib
import json
from typing import get_args

from sqlalchemy import Connection, delete, insert, select, update

from ...errors import check_choice
from .database import Database
from .errors import ConflictError, StoreDamagedError
from .objects import ObjectStore
from .photos import check_digest
from .records import JsonObject, ProjectId, Source, Version
from .rows import find_project, find_row, lock_project, refuse_over, replaced_versions, usage
from .tables import DatabaseRow, projects, versions
from .trainings import lock_running
from .values import check_number, now, to_json


class VersionRepository:
    """The versions of projects' classifiers: update files with their summaries."""

    def __init__(self, database: Database, objects: ObjectStore) -> None:
        self.database = database
        self.objects = objects

    def publish(
        self,
        project: ProjectId,
        content: bytes,
        source: Source,
        summary: JsonObject,
        training: str | None = None,
        worker: str | None = None,
    ) -> Version:
        """Add a version and make it current; for a training, only while it is running (by this worker)."""
        check_choice("source", source, get_args(Source))
        encoded, digest = to_json(summary), hashlib.sha256(content).hexdigest()
        with self.database.read() as connection:
            user = find_project(connection, project).user_id
        with self.objects.stage(user, content) as staged, self.database.write() as connection:
            rows = lock_project(connection, project)
            if training is not None:
                lock_running(connection, training, project=project, worker=worker)
            for row in replaced_versions(connection, rows):
                self._delete(connection, row)
            refuse_over("bytes", usage(connection, user).bytes + len(content), rows.user.quota_bytes)
            number = rows.project.last_version + 1
            version = Version(number, now(), len(content), digest, source, json.loads(encoded), current=True)
            self.objects.keep(connection, staged)
            connection.execute(
                insert(versions).values(
                    project_id=project, number=number, created=version.created, bytes=version.bytes, digest=digest,
                    source=source, summary=encoded, content=staged.names[0],
                )
            )  # fmt: skip
            numbers = {"last_version": number, "current_version": number}
            connection.execute(update(projects).where(projects.c.id == project).values(**numbers))
        self.objects.try_sweep()
        return version

    def all(self, project: ProjectId) -> list[Version]:
        """Return the versions of a project, the newest first."""
        with self.database.read() as connection:
            current = find_project(connection, project).current_version
            rows = select(versions).where(versions.c.project_id == project).order_by(versions.c.number.desc())
            return [_version(row, current) for row in connection.execute(rows)]

    def current(self, project: ProjectId) -> Version | None:
        """Return the current version of a project, if there is one."""
        with self.database.read() as connection:
            number = find_project(connection, project).current_version
            return None if number is None else _version(_find(connection, project, number), number)

    def get(self, project: ProjectId, number: int) -> Version:
        """Return one version."""
        with self.database.read() as connection:
            current = find_project(connection, project).current_version
            return _version(_find(connection, project, number), current)

    def content(self, project: ProjectId, number: int) -> bytes:
        """Return the update file of a version, after a check of its digest."""
        with self.database.read() as connection:
            find_project(connection, project)
            row = _find(connection, project, number)
        try:
            content = self.objects.read(row.content)
        except StoreDamagedError:
            self.get(project, number)  # it may have been deleted in the meantime
            raise
        check_digest(content, row.digest)
        return content

    def make_current(self, project: ProjectId, number: int) -> Version:
        """Make another version the current one."""
        with self.database.write() as connection:
            lock_project(connection, project)
            row = _find(connection, project, number)
            connection.execute(
                update(projects).where(projects.c.id == project).values(current_version=number)
            )
            return _version(row, number)

    def delete(self, project: ProjectId, number: int) -> None:
        """Delete a version that is not the current one."""
        with self.database.write(reserved=True) as connection:
            current = lock_project(connection, project).project.current_version
            row = _find(connection, project, number)
            if number == current:
                raise ConflictError(
                    "The current version cannot be deleted.", "Make another one current first."
                )
            self._delete(connection, row)
        self.objects.try_sweep()

    def _delete(self, connection: Connection, row: DatabaseRow) -> None:
        self.objects.delete_later(connection, [row.content])
        condition = (versions.c.project_id == row.project_id) & (versions.c.number == row.number)
        connection.execute(delete(versions).where(condition))


def _find(connection: Connection, project: ProjectId, number: int) -> DatabaseRow:
    condition = (versions.c.project_id == project) & (versions.c.number == check_number(number))
    return find_row(connection, "version", versions, condition)


def _version(row: DatabaseRow, current: int | None) -> Version:
    summary = json.loads(row.summary)
    return Version(row.number, row.created, row.bytes, row.digest, row.source, summary, row.number == current)
