"""Users, their tokens and quotas. A token is shown once; the database knows only its SHA-256."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from ...errors import InputError
from .database import Database
from .errors import QuotaError, StoreError, StoreGoneError, no_such
from .names import clean_name, known_id, new_id, now
from .objects import Objects
from .records import Quota, Used, User
from .schema import classes, photos, users, versions


class Users:
    def __init__(self, database: Database, objects: Objects) -> None:
        self.database = database
        self.objects = objects

    def create(self, name: str, quota: Quota | None) -> tuple[User, str]:
        user = User(new_id(), clean_name("user", name), now(), _checked(quota or Quota()))
        token, digest = _new_token()
        with self.database.write() as connection:
            connection.execute(
                insert(users).values(
                    id=user.id, name=user.name, created=user.created, token_digest=digest, last_version=0,
                    **_columns(user.quota),
                )
            )  # fmt: skip
        return user, token

    def of_token(self, token: str) -> User | None:
        with self.database.read() as connection:
            row = connection.execute(select(users).where(users.c.token_digest == _digest(token))).first()
        return None if row is None else _user(row)

    def new_token(self, user: str) -> str:
        token, digest = _new_token()
        self._change(user, token_digest=digest)
        return token

    def one(self, user: str) -> User:
        with self.database.read() as connection:
            return _user(find_user(connection, user))

    def all(self, limit: int | None) -> list[User]:
        with self.database.read() as connection:
            rows = select(users).order_by(users.c.seq).limit(limit)
            return [_user(row) for row in connection.execute(rows)]

    def used(self, user: str) -> Used:
        with self.database.read() as connection:
            find_user(connection, user)
            return used(connection, user)

    def set_quota(self, user: str, quota: Quota) -> User:
        return self._change(user, **_columns(_checked(quota)))

    def delete(self, user: str) -> None:
        """Every row and every object, and no trace in the files."""
        with self.database.write() as connection:
            lock_user(connection, user)
            names = [
                name
                for row in connection.execute(
                    select(photos.c.content, photos.c.thumbnail).where(photos.c.user_id == user)
                )
                for name in row
            ]
            names += connection.execute(
                select(versions.c.content).where(versions.c.user_id == user)
            ).scalars()
            self.objects.doom_staged(connection, user)
            self.objects.doom(connection, names)
            connection.execute(delete(users).where(users.c.id == user))
        try:
            self.objects.sweep()
            self.objects.forget_user(user)
        except StoreError as error:
            raise StoreGoneError(
                f"The user's rows are deleted, but not yet all objects: {error.message}",
                "They are deleted as soon as the object store answers: at the next deletion or start.",
            ) from error
        self.database.scrub()

    def _change(self, user: str, **values: Any) -> User:
        with self.database.write() as connection:
            lock_user(connection, user)
            connection.execute(update(users).where(users.c.id == user).values(**values))
            return _user(find_user(connection, user))


def find_user(connection: Connection, user: str) -> Row[Any]:
    row = connection.execute(select(users).where(users.c.id == known_id("user", user))).first()
    if row is None:
        raise no_such("user")
    return row


def lock_user(connection: Connection, user: str) -> Row[Any]:
    """From here to the end of the transaction nobody else changes what is this user's: quotas hold."""
    which = select(users).where(users.c.id == known_id("user", user)).with_for_update()
    row = connection.execute(which).first()
    if row is None:
        raise no_such("user")
    return row


def used(connection: Connection, user: str) -> Used:
    def count(table: Any) -> int:
        found = connection.execute(select(func.count()).where(table.c.user_id == user)).scalar_one()
        return int(found)

    def total(table: Any) -> int:
        found = connection.execute(
            select(func.sum(table.c.bytes)).where(table.c.user_id == user)
        ).scalar_one()
        return int(found or 0)

    return Used(count(classes), count(photos), total(photos) + total(versions), count(versions))


def refuse_over(what: str, would_be: int, allowed: int) -> None:
    """The quota's one line."""
    if would_be > allowed:
        raise QuotaError(
            f"That would be {would_be:,} {what}; {allowed:,} are allowed.",
            "Remove something first, or ask the administrator for more.",
        )


def _user(row: Row[Any]) -> User:
    quota = Quota(row.quota_classes, row.quota_photos, row.quota_bytes, row.quota_versions)
    return User(row.id, row.name, row.created, quota)


def _columns(quota: Quota) -> dict[str, int]:
    return {f"quota_{name}": value for name, value in asdict(quota).items()}


def _checked(quota: Quota) -> Quota:
    for name, value in asdict(quota).items():
        least = 1 if name == "versions" else 0
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**63:
            raise InputError(
                f"A quota of {value!r} {name} makes no sense.", f"Use a whole number from {least} on."
            )
    return quota


def _new_token() -> tuple[str, str]:
    token = secrets.token_urlsafe(32)
    return token, _digest(token)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
