"""The versions of a user's update: published, rolled back, downloaded.

Which one is current stands in the user's row, so there is always one answer, and changing it is one write.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from ...errors import invalid_choice
from .database import Database
from .errors import ConflictError, StoreDamagedError, no_such
from .names import known_number, now, packed
from .objects import Objects
from .photos import check_digest
from .records import Source, Version
from .schema import users, versions
from .trainings import lock_running
from .users import find_user, lock_user, refuse_over, used


class Versions:
    def __init__(self, database: Database, objects: Objects) -> None:
        self.database = database
        self.objects = objects

    def publish(
        self,
        user: str,
        content: bytes,
        source: Source,
        summary: dict[str, Any],
        training: str | None,
        worker: str | None,
    ) -> Version:
        if source not in ("trained", "uploaded"):
            raise invalid_choice("source", source, ("trained", "uploaded"))
        said, digest = packed(summary), hashlib.sha256(content).hexdigest()
        with self.database.read() as connection:
            find_user(connection, user)
        with self.objects.stage(user, content) as staged, self.database.write() as connection:
            row = lock_user(connection, user)
            if training is not None:
                lock_running(connection, training, user=user, worker=worker)
            self._make_room(connection, row)
            refuse_over("bytes", used(connection, user).bytes + len(content), row.quota_bytes)
            made = Version(
                row.last_version + 1, now(), len(content), digest, source, json.loads(said), current=True
            )
            self.objects.keep(connection, staged)
            connection.execute(
                insert(versions).values(
                    user_id=user, number=made.number, created=made.created, bytes=made.bytes, digest=digest,
                    source=source, summary=said, content=staged.names[0],
                )
            )  # fmt: skip
            values = {"last_version": made.number, "current_version": made.number}
            connection.execute(update(users).where(users.c.id == user).values(**values))
        self.objects.tidy()
        return made

    def all(self, user: str) -> list[Version]:
        with self.database.read() as connection:
            current = find_user(connection, user).current_version
            rows = select(versions).where(versions.c.user_id == user).order_by(versions.c.number.desc())
            return [_version(row, current) for row in connection.execute(rows)]

    def current(self, user: str) -> Version | None:
        with self.database.read() as connection:
            number = find_user(connection, user).current_version
            return None if number is None else _version(_find(connection, user, number), number)

    def one(self, user: str, number: int) -> Version:
        with self.database.read() as connection:
            current = find_user(connection, user).current_version
            return _version(_find(connection, user, number), current)

    def download(self, user: str, number: int) -> bytes:
        with self.database.read() as connection:
            find_user(connection, user)
            row = _find(connection, user, number)
        try:
            content = self.objects.read(row.content)
        except StoreDamagedError:
            self.one(user, number)  # it may have been deleted meanwhile
            raise
        check_digest(content, row.digest)
        return content

    def make_current(self, user: str, number: int) -> Version:
        with self.database.write() as connection:
            lock_user(connection, user)
            row = _find(connection, user, number)
            connection.execute(update(users).where(users.c.id == user).values(current_version=number))
            return _version(row, number)

    def delete(self, user: str, number: int) -> None:
        with self.database.write() as connection:
            current = lock_user(connection, user).current_version
            row = _find(connection, user, number)
            if number == current:
                raise ConflictError(
                    "The current version cannot be deleted.", "Make another one current first."
                )
            self._drop(connection, row)
        self.objects.tidy()

    def _make_room(self, connection: Connection, user: Row[Any]) -> None:
        """For one more: the oldest ones that are not current go."""
        of_user = versions.c.user_id == user.id
        count = connection.execute(select(func.count()).where(of_user)).scalar_one()
        over = count + 1 - user.quota_versions
        if over <= 0:
            return
        oldest = select(versions).where(of_user).order_by(versions.c.number)
        if user.quota_versions > 1:  # with room for one only, the current one makes way too
            oldest = oldest.where(versions.c.number != func.coalesce(user.current_version, 0))
        for row in connection.execute(oldest.limit(over)).all():
            self._drop(connection, row)

    def _drop(self, connection: Connection, row: Row[Any]) -> None:
        self.objects.doom(connection, [row.content])
        which = (versions.c.user_id == row.user_id) & (versions.c.number == row.number)
        connection.execute(delete(versions).where(which))


def _find(connection: Connection, user: str, number: int) -> Row[Any]:
    which = (versions.c.user_id == user) & (versions.c.number == known_number(number))
    row = connection.execute(select(versions).where(which)).first()
    if row is None:
        raise no_such("version")
    return row


def _version(row: Row[Any], current: int | None) -> Version:
    return Version(
        row.number,
        row.created,
        row.bytes,
        row.digest,
        row.source,
        json.loads(row.summary),
        row.number == current,
    )
