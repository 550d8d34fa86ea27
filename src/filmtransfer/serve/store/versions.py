"""The versions of projects' classifiers.

The number of the current version is stored in the project's row: there is never more than one, and changing it is one
write.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, get_args

from sqlalchemy import ColumnElement, Connection, case, delete, func, insert, select, update

from ...budgets import MAX_UPLOADED_SUMMARY
from ...errors import InputError, check_choice
from .database import Database
from .errors import ConflictError, StoreDamagedError, not_found
from .objects import ObjectStore
from .photos import check_digest
from .records import JsonObject, ProjectId, Source, Version
from .rows import (
    find_project,
    find_project_rows,
    lock_project,
    refuse_over,
    replaced_versions,
    usage,
)
from .tables import DatabaseRow, events, projects, versions
from .trainings import add_event, end_training, lock_running
from .values import check_number, now, to_json

PUBLISHED = "version"  # the kind of a training's event


def listed_columns(longest: int) -> list[ColumnElement[Any]]:
    """Return the columns of a version; of an upload, a longer summary is never read: there was no limit once."""
    text = versions.c.summary
    too_long = (versions.c.source == "uploaded") & (func.length(text) > longest)
    others = [column for column in versions.c if column is not text]
    return [*others, case((too_long, "{}"), else_=text).label("summary")]


LISTED = listed_columns(MAX_UPLOADED_SUMMARY)


class VersionRepository:
    """The versions of projects' classifiers: update files with their summaries."""

    def __init__(self, database: Database, objects: ObjectStore) -> None:
        self.database = database
        self.objects = objects

    def check_room(self, project: ProjectId, size: int) -> None:
        """Refuse a new version of this many bytes if the user's quota has no room for it, as ``publish`` will."""
        with self.database.read() as connection:
            rows = find_project_rows(connection, project)
            freed = sum(row.bytes for row in replaced_versions(connection, rows))
            stored = usage(connection, rows.user.id).bytes - freed
            refuse_over("bytes", stored + size, rows.user.quota_bytes)

    def publish(
        self,
        project: ProjectId,
        content: bytes,
        source: Source,
        summary: JsonObject,
        training: str | None = None,
        worker: str | None = None,
        event: JsonObject | None = None,
        last: bool = False,
    ) -> Version:
        """Add a version and make it current; for a training, only while it is running (by this worker).

        The same transaction adds the training's event "version", and ends the training with its ``last`` version. A file
        that the training has published already is not published again: its acknowledgement may have been lost, or the
        worker died and another one repeats the training.
        """
        check_choice("source", source, get_args(Source))
        encoded, digest = to_json(summary), hashlib.sha256(content).hexdigest()
        if source == "uploaded" and len(encoded) > MAX_UPLOADED_SUMMARY:
            raise InputError("The class names of this file are too long in all.", "Use shorter names.")
        with self.database.read() as connection:
            user = find_project(connection, project).user_id
        with self.objects.stage(user, content) as staged, self.database.write() as connection:
            rows = lock_project(connection, project)
            running = None
            if training is not None:
                running = lock_running(connection, training, project=project, worker=worker)
                published = _published(connection, running, digest)
                if published is not None:
                    if last:
                        end_training(connection, running, "done", "")
                    return _version(published, rows.project.current_version)
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
            if running is not None:
                add_event(connection, running.id, PUBLISHED, to_json({"number": number} | (event or {})))
                if last:
                    end_training(connection, running, "done", "")
        self.objects.try_sweep()
        return version

    def all(self, project: ProjectId) -> list[Version]:
        """Return the versions of a project, the newest first."""
        with self.database.read() as connection:
            current = find_project(connection, project).current_version
            rows = select(*LISTED).where(versions.c.project_id == project).order_by(versions.c.number.desc())
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
    row = connection.execute(select(*LISTED).where(condition)).first()
    if row is None:
        raise not_found("version")
    return row


def _published(connection: Connection, training: DatabaseRow, digest: str) -> DatabaseRow | None:
    """Return the version with this digest that the training has published already."""
    query = select(events.c.data).where((events.c.training_id == training.id) & (events.c.kind == PUBLISHED))
    numbers = [json.loads(data)["number"] for data in connection.execute(query).scalars()]
    condition = (versions.c.project_id == training.project_id) & versions.c.number.in_(numbers)
    return connection.execute(select(versions).where(condition & (versions.c.digest == digest))).first()


def _version(row: DatabaseRow, current: int | None) -> Version:
    summary = json.loads(row.summary)
    return Version(row.number, row.created, row.bytes, row.digest, row.source, summary, row.number == current)
