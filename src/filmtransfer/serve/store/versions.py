"""The versions of users' classifiers.

The number of the current version is stored in the user's row: there is never more than one, and changing it is one
write.
"""

from __future__ import annotations

import hashlib
import json
from typing import get_args

from sqlalchemy import Connection, delete, func, insert, select, update

from ...errors import check_choice
from .database import Database
from .errors import ConflictError, StoreDamagedError
from .objects import ObjectStore
from .photos import check_digest
from .records import JsonObject, Source, Version
from .tables import DatabaseRow, users, versions
from .trainings import lock_running
from .users import find_row, find_user, lock_user, refuse_over, usage
from .values import check_number, now, to_json


class VersionRepository:
    """The versions of users' classifiers: update files with their summaries."""

    def __init__(self, database: Database, objects: ObjectStore) -> None:
        self.database = database
        self.objects = objects

    def publish(
        self,
        user: str,
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
            find_user(connection, user)
        with self.objects.stage(user, content) as staged, self.database.write() as connection:
            row = lock_user(connection, user)
            if training is not None:
                lock_running(connection, training, user=user, worker=worker)
            self._make_room(connection, row)
            refuse_over("bytes", usage(connection, user).bytes + len(content), row.quota_bytes)
            number = row.last_version + 1
            version = Version(number, now(), len(content), digest, source, json.loads(encoded), current=True)
            self.objects.keep(connection, staged)
            connection.execute(
                insert(versions).values(
                    user_id=user, number=number, created=version.created, bytes=version.bytes, digest=digest,
                    source=source, summary=encoded, content=staged.names[0],
                )
            )  # fmt: skip
            numbers = {"last_version": number, "current_version": number}
            connection.execute(update(users).where(users.c.id == user).values(**numbers))
        self.objects.try_sweep()
        return version

    def all(self, user: str) -> list[Version]:
        """Return the versions of a user, the newest first."""
        with self.database.read() as connection:
            current = find_user(connection, user).current_version
            rows = select(versions).where(versions.c.user_id == user).order_by(versions.c.number.desc())
            return [_version(row, current) for row in connection.execute(rows)]

    def current(self, user: str) -> Version | None:
        """Return the current version of a user, if there is one."""
        with self.database.read() as connection:
            number = find_user(connection, user).current_version
            return None if number is None else _version(_find(connection, user, number), number)

    def get(self, user: str, number: int) -> Version:
        """Return one version."""
        with self.database.read() as connection:
            current = find_user(connection, user).current_version
            return _version(_find(connection, user, number), current)

    def content(self, user: str, number: int) -> bytes:
        """Return the update file of a version, after a check of its digest."""
        with self.database.read() as connection:
            find_user(connection, user)
            row = _find(connection, user, number)
        try:
            content = self.objects.read(row.content)
        except StoreDamagedError:
            self.get(user, number)  # it may have been deleted in the meantime
            raise
        check_digest(content, row.digest)
        return content

    def make_current(self, user: str, number: int) -> Version:
        """Make another version the current one."""
        with self.database.write() as connection:
            lock_user(connection, user)
            row = _find(connection, user, number)
            connection.execute(update(users).where(users.c.id == user).values(current_version=number))
            return _version(row, number)

    def delete(self, user: str, number: int) -> None:
        """Delete a version that is not the current one."""
        with self.database.write() as connection:
            current = lock_user(connection, user).current_version
            row = _find(connection, user, number)
            if number == current:
                raise ConflictError(
                    "The current version cannot be deleted.", "Make another one current first."
                )
            self._delete(connection, row)
        self.objects.try_sweep()

    def _make_room(self, connection: Connection, user: DatabaseRow) -> None:
        """Delete the oldest versions that are not current until the quota has room for one more."""
        of_user = versions.c.user_id == user.id
        count = connection.execute(select(func.count()).where(of_user)).scalar_one()
        over = count + 1 - user.quota_versions
        if over <= 0:
            return
        oldest = select(versions).where(of_user).order_by(versions.c.number)
        if user.quota_versions > 1:  # with a quota of one, the current version is replaced
            oldest = oldest.where(versions.c.number != func.coalesce(user.current_version, 0))
        for row in connection.execute(oldest.limit(over)).all():
            self._delete(connection, row)

    def _delete(self, connection: Connection, row: DatabaseRow) -> None:
        self.objects.delete_later(connection, [row.content])
        condition = (versions.c.user_id == row.user_id) & (versions.c.number == row.number)
        connection.execute(delete(versions).where(condition))


def _find(connection: Connection, user: str, number: int) -> DatabaseRow:
    condition = (versions.c.user_id == user) & (versions.c.number == check_number(number))
    return find_row(connection, "version", versions, condition)


def _version(row: DatabaseRow, current: int | None) -> Version:
    summary = json.loads(row.summary)
    return Version(row.number, row.created, row.bytes, row.digest, row.source, summary, row.number == current)
