"""Classes and the photos in them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from ...errors import InputError
from .database import Database
from .errors import ConflictError, StoreDamagedError, no_such
from .names import clean_name, known_id, new_id, now
from .objects import Objects
from .records import ClassRow, Photo
from .schema import classes, photos
from .users import find_user, lock_user, refuse_over, used


class Photos:
    def __init__(self, database: Database, objects: Objects) -> None:
        self.database = database
        self.objects = objects

    def classes(self, user: str) -> list[ClassRow]:
        with self.database.read() as connection:
            find_user(connection, user)
            return _classes(connection, classes.c.user_id == user)

    def add_class(self, user: str, name: str) -> ClassRow:
        made = ClassRow(new_id(), clean_name("class", name), 0)
        with _one_name(made.name), self.database.write() as connection:
            quota = lock_user(connection, user).quota_classes
            connection.execute(insert(classes).values(id=made.id, user_id=user, name=made.name))
            refuse_over("classes", used(connection, user).classes, quota)
        return made

    def rename_class(self, user: str, id: str, name: str) -> ClassRow:
        name = clean_name("class", name)
        with _one_name(name), self.database.write() as connection:
            lock_user(connection, user)
            _find_class(connection, user, id)
            connection.execute(update(classes).where(classes.c.id == id).values(name=name))
            return _classes(connection, classes.c.id == id)[0]

    def remove_class(self, user: str, id: str) -> None:
        with self.database.write() as connection:
            lock_user(connection, user)
            _find_class(connection, user, id)
            of_class = select(photos.c.content, photos.c.thumbnail).where(photos.c.class_id == id)
            self.objects.doom(connection, [name for row in connection.execute(of_class) for name in row])
            connection.execute(delete(classes).where(classes.c.id == id))
        self.objects.tidy()

    def add(self, user: str, class_id: str, content: bytes, thumbnail: bytes, media_type: str) -> Photo:
        if len(media_type) > 100 or not media_type.isprintable():
            raise InputError(f"{media_type[:100]!a} is not a media type.", "As in image/jpeg.")
        digest = hashlib.sha256(content).hexdigest()
        with self.database.read() as connection:  # refuse before the bytes are written
            quota = find_user(connection, user)
            there = _same(connection, user, class_id, digest)
            if there is not None:
                return there
            _refuse(connection, user, quota, len(content))
        with self.objects.stage(user, content, thumbnail) as staged, self.database.write() as connection:
            quota = lock_user(connection, user)
            there = _same(connection, user, class_id, digest)
            if there is not None:
                return there
            _refuse(connection, user, quota, len(content))
            made = Photo(new_id(), class_id, digest, len(content), media_type, now())
            self.objects.keep(connection, staged)
            connection.execute(
                insert(photos).values(
                    id=made.id, user_id=user, class_id=class_id, digest=digest, bytes=made.bytes,
                    media_type=media_type, created=made.created, content=staged.names[0], thumbnail=staged.names[1],
                )
            )  # fmt: skip
        return made

    def all(self, user: str, class_id: str | None) -> list[Photo]:
        with self.database.read() as connection:
            find_user(connection, user)
            which = photos.c.user_id == user
            if class_id is not None:
                _find_class(connection, user, class_id)
                which &= photos.c.class_id == class_id
            return [
                _photo(row) for row in connection.execute(select(photos).where(which).order_by(photos.c.seq))
            ]

    def one(self, user: str, id: str) -> Photo:
        with self.database.read() as connection:
            return _photo(_find(connection, user, id))

    def content(self, user: str, id: str) -> bytes:
        row, content = self._read(user, id, "content")
        check_digest(content, row.digest)
        return content

    def thumbnail(self, user: str, id: str) -> bytes:
        return self._read(user, id, "thumbnail")[1]

    def move(self, user: str, id: str, class_id: str) -> Photo:
        try:
            with self.database.write() as connection:
                lock_user(connection, user)
                _find(connection, user, id)
                _find_class(connection, user, class_id)
                connection.execute(update(photos).where(photos.c.id == id).values(class_id=class_id))
                return _photo(_find(connection, user, id))
        except IntegrityError:
            raise ConflictError(
                "That class has the same photo already.", "Remove one of the two instead."
            ) from None

    def remove(self, user: str, id: str) -> None:
        with self.database.write() as connection:
            lock_user(connection, user)
            row = _find(connection, user, id)
            self.objects.doom(connection, [row.content, row.thumbnail])
            connection.execute(delete(photos).where(photos.c.id == id))
        self.objects.tidy()

    def _read(self, user: str, id: str, which: str) -> tuple[Row[Any], bytes]:
        with self.database.read() as connection:
            row = _find(connection, user, id)
        try:
            return row, self.objects.read(getattr(row, which))
        except StoreDamagedError:
            self.one(user, id)  # it may have been removed meanwhile
            raise


@contextmanager
def _one_name(name: str) -> Iterator[None]:
    """Two classes of one user never have the same name, whoever comes first."""
    try:
        yield
    except IntegrityError:
        raise ConflictError(f"There is a class called {name!r} already.", "Choose another name.") from None


def check_digest(content: bytes, digest: str) -> None:
    if hashlib.sha256(content).hexdigest() != digest:
        raise StoreDamagedError(
            "The bytes are not those that were written.", "Restore the objects from a backup."
        )


def _refuse(connection: Connection, user: str, quota: Row[Any], size: int) -> None:
    have = used(connection, user)
    refuse_over("photos", have.photos + 1, quota.quota_photos)
    refuse_over("bytes", have.bytes + size, quota.quota_bytes)


def _classes(connection: Connection, which: Any) -> list[ClassRow]:
    count = select(func.count()).where(photos.c.class_id == classes.c.id).scalar_subquery()
    rows = select(classes.c.id, classes.c.name, count.label("photos")).where(which).order_by(classes.c.seq)
    return [ClassRow(row.id, row.name, row.photos) for row in connection.execute(rows)]


def _find_class(connection: Connection, user: str, id: str) -> Row[Any]:
    which = (classes.c.id == known_id("class", id)) & (classes.c.user_id == user)
    row = connection.execute(select(classes).where(which)).first()
    if row is None:
        raise no_such("class")
    return row


def _find(connection: Connection, user: str, id: str) -> Row[Any]:
    which = (photos.c.id == known_id("photo", id)) & (photos.c.user_id == known_id("user", user))
    row = connection.execute(select(photos).where(which)).first()
    if row is None:
        raise no_such("photo")
    return row


def _same(connection: Connection, user: str, class_id: str, digest: str) -> Photo | None:
    _find_class(connection, user, class_id)
    which = (photos.c.class_id == class_id) & (photos.c.digest == digest)
    row = connection.execute(select(photos).where(which)).first()
    return None if row is None else _photo(row)


def _photo(row: Row[Any]) -> Photo:
    return Photo(row.id, row.class_id, row.digest, row.bytes, row.media_type, row.created)
