"""The photos of users."""

from __future__ import annotations

import hashlib

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from ...errors import InputError
from .classes import find_class
from .database import Database
from .errors import ConflictError, StoreDamagedError
from .objects import ObjectStore
from .records import Photo
from .tables import DatabaseRow, photos
from .users import find_row, find_user, lock_user, refuse_over, usage
from .values import check_id, new_id, now


class PhotoRepository:
    """The photos of users, each in one class."""

    def __init__(self, database: Database, objects: ObjectStore) -> None:
        self.database = database
        self.objects = objects

    def add(
        self, user: str, class_id: str, content: bytes, thumbnail: bytes, media_type: str
    ) -> tuple[Photo, bool]:
        """Return the photo of a class with these bytes, and whether it was added now."""
        if len(media_type) > 100 or not media_type.isprintable():
            raise InputError(f"{media_type[:100]!a} is not a media type.", "As in image/jpeg.")
        digest = hashlib.sha256(content).hexdigest()
        with self.database.read() as connection:  # refuse before the bytes are written
            existing = _existing_or_allowed(
                connection, find_user(connection, user), class_id, digest, len(content)
            )
            if existing is not None:
                return existing, False
        with self.objects.stage(user, content, thumbnail) as staged, self.database.write() as connection:
            existing = _existing_or_allowed(
                connection, lock_user(connection, user), class_id, digest, len(content)
            )
            if existing is not None:
                return existing, False
            photo = Photo(new_id(), class_id, digest, len(content), media_type, now())
            self.objects.keep(connection, staged)
            connection.execute(
                insert(photos).values(
                    id=photo.id, user_id=user, class_id=class_id, digest=digest, bytes=photo.bytes,
                    media_type=media_type, created=photo.created, content=staged.names[0], thumbnail=staged.names[1],
                )
            )  # fmt: skip
        return photo, True

    def all(self, user: str, class_id: str | None = None) -> list[Photo]:
        """Return the photos of a user, or of one class, in the order in which they were added."""
        with self.database.read() as connection:
            find_user(connection, user)
            condition = photos.c.user_id == user
            if class_id is not None:
                find_class(connection, user, class_id)
                condition &= photos.c.class_id == class_id
            rows = connection.execute(select(photos).where(condition).order_by(photos.c.seq))
            return [_photo(row) for row in rows]

    def get(self, user: str, id: str) -> Photo:
        """Return one photo."""
        with self.database.read() as connection:
            return _photo(_find(connection, user, id))

    def content(self, user: str, id: str) -> bytes:
        """Return the original bytes of a photo, after a check of their digest."""
        row, content = self._read(user, id, "content")
        check_digest(content, row.digest)
        return content

    def thumbnail(self, user: str, id: str) -> bytes:
        """Return the thumbnail of a photo."""
        return self._read(user, id, "thumbnail")[1]

    def move(self, user: str, id: str, class_id: str) -> Photo:
        """Move a photo to another class."""
        try:
            with self.database.write() as connection:
                lock_user(connection, user)
                _find(connection, user, id)
                find_class(connection, user, class_id)
                connection.execute(update(photos).where(photos.c.id == id).values(class_id=class_id))
                return _photo(_find(connection, user, id))
        except IntegrityError:
            raise ConflictError(
                "That class has the same photo already.", "Remove one of the two instead."
            ) from None

    def delete(self, user: str, id: str) -> None:
        """Delete a photo."""
        with self.database.write() as connection:
            lock_user(connection, user)
            row = _find(connection, user, id)
            self.objects.delete_later(connection, [row.content, row.thumbnail])
            connection.execute(delete(photos).where(photos.c.id == id))
        self.objects.try_sweep()

    def _read(self, user: str, id: str, column: str) -> tuple[DatabaseRow, bytes]:
        with self.database.read() as connection:
            row = _find(connection, user, id)
        try:
            return row, self.objects.read(getattr(row, column))
        except StoreDamagedError:
            self.get(user, id)  # it may have been deleted in the meantime
            raise


def check_digest(content: bytes, digest: str) -> None:
    """Raise ``StoreDamagedError`` unless the SHA-256 of the bytes is the recorded one."""
    if hashlib.sha256(content).hexdigest() != digest:
        raise StoreDamagedError(
            "The stored bytes have changed since they were written.", "Restore the objects from a backup."
        )


def _find(connection: Connection, user: str, id: str) -> DatabaseRow:
    condition = (photos.c.id == check_id("photo", id)) & (photos.c.user_id == check_id("user", user))
    return find_row(connection, "photo", photos, condition)


def _existing_or_allowed(
    connection: Connection, user: DatabaseRow, class_id: str, digest: str, size: int
) -> Photo | None:
    """Return the photo of the class that has this digest; without one, check the quota for a new photo."""
    find_class(connection, user.id, class_id)
    condition = (photos.c.class_id == class_id) & (photos.c.digest == digest)
    row = connection.execute(select(photos).where(condition)).first()
    if row is not None:
        return _photo(row)
    used = usage(connection, user.id)
    refuse_over("photos", used.photos + 1, user.quota_photos)
    refuse_over("bytes", used.bytes + size, user.quota_bytes)
    return None


def _photo(row: DatabaseRow) -> Photo:
    return Photo(row.id, row.class_id, row.digest, row.bytes, row.media_type, row.created)
