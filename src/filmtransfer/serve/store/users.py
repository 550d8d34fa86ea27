"""Users, their tokens and quotas. A token is shown once; the database stores only its SHA-256."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from sqlalchemy import delete, insert, select, update

from ...errors import InputError
from ..settings import MIN_VERSIONS
from .database import Database
from .errors import StoreError, StoreUnavailableError
from .objects import ObjectStore
from .records import Quota, Usage, User
from .rows import delete_projects, find_user, insert_project, is_new, lock_user, usage
from .tables import DatabaseRow, projects, users
from .values import clean_name, new_id, now


class UserRepository:
    """The users of the service."""

    def __init__(self, database: Database, objects: ObjectStore) -> None:
        self.database = database
        self.objects = objects

    def create(self, name: str, quota: Quota | None = None) -> tuple[User, str]:
        """Create a user with an empty project; return it with its token, which cannot be read again."""
        user = User(new_id(), clean_name("user", name), now(), _valid(quota or Quota()))
        token = secrets.token_urlsafe(32)
        with self.database.write() as connection:
            connection.execute(
                insert(users).values(
                    id=user.id, name=user.name, created=user.created, token_digest=hash_token(token),
                    **_columns(user.quota),
                )
            )  # fmt: skip
            insert_project(connection, user.id)
        return user, token

    def by_token(self, token: str) -> User | None:
        """Return the user who has this token, if there is one."""
        with self.database.read() as connection:
            row = connection.execute(select(users).where(users.c.token_digest == hash_token(token))).first()
        return None if row is None else _user(row)

    def new_token(self, user: str) -> str:
        """Replace the token of a user; the old one is invalid at once."""
        token = secrets.token_urlsafe(32)
        self._update(user, token_digest=hash_token(token))
        return token

    def get(self, user: str) -> User:
        """Return one user."""
        with self.database.read() as connection:
            return _user(find_user(connection, user))

    def all(self, limit: int | None = None) -> list[User]:
        """Return the users in the order of their creation, at most ``limit`` of them."""
        with self.database.read() as connection:
            rows = select(users).order_by(users.c.seq).limit(limit)
            return [_user(row) for row in connection.execute(rows)]

    def usage(self, user: str) -> Usage:
        """Return how much a user stores, in all projects."""
        with self.database.read() as connection:
            find_user(connection, user)
            return usage(connection, user)

    def set_quota(self, user: str, quota: Quota) -> User:
        """Change the quota of a user."""
        return self._update(user, **_columns(_valid(quota)))

    def start_over(self, user: str) -> None:
        """Delete all projects with every row and object; the user has a new empty one, and keeps token and quota."""
        with self.database.write(reserved=True) as connection:
            lock_user(connection, user)
            if is_new(connection, user):
                return  # requests that delete nothing must not rewrite the file again and again
            delete_projects(connection, self.objects, projects.c.user_id == user)
            insert_project(connection, user)
        with _reported_as("The rows are"):
            self.objects.sweep()
        self.database.scrub()

    def delete(self, user: str) -> None:
        """Delete a user with every row and object; SQLite's file and log keep no trace of them."""
        with self.database.write(reserved=True) as connection:
            lock_user(connection, user)
            self.objects.reject_staged(connection, user)
            delete_projects(connection, self.objects, projects.c.user_id == user)
            connection.execute(delete(users).where(users.c.id == user))
        with _reported_as("The user's rows are"):
            self.objects.sweep()
            self.objects.delete_user(user)
        self.database.scrub()

    def _update(self, user: str, **values: str | int) -> User:
        with self.database.write() as connection:
            lock_user(connection, user)
            connection.execute(update(users).where(users.c.id == user).values(**values))
            return _user(find_user(connection, user))


def hash_token(token: str) -> str:
    """Return the SHA-256 of a token, which is all that is stored of it."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


@contextmanager
def _reported_as(rows: str) -> Iterator[None]:
    """Report that the object store failed after the rows were deleted."""
    try:
        yield
    except StoreError as error:
        raise StoreUnavailableError(
            f"{rows} deleted, but not yet all objects: {error.message}",
            "They are deleted as soon as the object store responds: at the next deletion or start.",
        ) from error


def _user(row: DatabaseRow) -> User:
    quota = Quota(row.quota_classes, row.quota_photos, row.quota_bytes, row.quota_versions)
    return User(row.id, row.name, row.created, quota)


def _columns(quota: Quota) -> dict[str, int]:
    return {f"quota_{name}": value for name, value in asdict(quota).items()}


def _valid(quota: Quota) -> Quota:
    for name, value in asdict(quota).items():
        least = MIN_VERSIONS if name == "versions" else 0
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**63:
            raise InputError(
                f"A quota of {value!r} {name} is not possible.", f"Use an integer of at least {least}."
            )
    return quota
