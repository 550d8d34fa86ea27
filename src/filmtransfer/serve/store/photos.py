"""The photos of projects."""

from __future__ import annotations

import hashlib

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from ...errors import InputError
from .classes import find_class
from .database import Database
from .errors import ConflictError, StoreDamagedError
from .objects import ObjectStore
from .records import Photo, ProjectId
from .rows import ProjectRows, find_project, find_project_rows, find_row, lock_project, refuse_over, usage
from .tables import DatabaseRow, photos
from .values import check_id, new_id, now


class PhotoRepository:
    """The photos of projects, each in one class."""

    def __init__(self, database: Database, objects: ObjectStore) -> None:
        self.database = database
        self.objects = objects

    def add(
        self, project: ProjectId, class_id: str, content: bytes, thumbnail: bytes, media_type: str
    ) -> tuple[Photo, bool]:
        """Return the photo of a class with these bytes, and whether it was added now."""
        if len(media_type) > 100 or not media_type.isprintable():
            raise InputError(f"{media_type[:100]!a} is not a media type.", "As in image/jpeg.")
        digest = hashlib.sha256(content).hexdigest()
        with self.database.read() as connection:  # refuse before the bytes are written
            rows = find_project_rows(connection, project)
            existing = _existing_or_allowed(connection, rows, class_id, digest, len(content))
            if existing is not None:
                return existing, False
        with (
            self.objects.stage(rows.user.id, content, thumbnail) as staged,
            self.database.write() as connection,
        ):
            rows = lock_project(connection, project)
            existing = _existing_or_allowed(connection, rows, class_id, digest, len(content))
            if existing is not None:
                return existing, False
            photo = Photo(new_id(), class_id, digest, len(content), media_type, now())
            self.objects.keep(connection, staged)
            connection.execute(
                insert(photos).values(
                    id=photo.id, project_id=project, class_id=class_id, digest=digest, bytes=photo.bytes,
                    media_type=media_type, created=photo.created, content=staged.names[0], thumbnail=staged.names[1],
                )
            )  # fmt: skip
        return photo, True

    def all(self, project: ProjectId, class_id: str | None = None) -> list[Photo]:
        """Return the photos of a project, or of one class, in the order in which they were added."""
        with self.database.read() as connection:
            find_project(connection, project)
            condition = photos.c.project_id == project
            if class_id is not None:
                find_class(connection, project, class_id)
                condition &= photos.c.class_id == class_id
            rows = connection.execute(select(photos).where(condition).order_by(photos.c.seq))
            return [_photo(row) for row in rows]

    def get(self, project: ProjectId, id: str) -> Photo:
        """Return one photo."""
        with self.database.read() as connection:
            return _photo(_find(connection, project, id))

    def content(self, project: ProjectId, id: str) -> bytes:
        """Return the original bytes of a photo, after a check of their digest."""
        row, content = self._read(project, id, "content")
        check_digest(content, row.digest)
        return content

    def thumbnail(self, project: ProjectId, id: str) -> bytes:
        """Return the thumbnail of a photo."""
        return self._read(project, id, "thumbnail")[1]

    def move(self, project: ProjectId, id: str, class_id: str) -> Photo:
        """Move a photo to another class."""
        try:
            with self.database.write() as connection:
                lock_project(connection, project)
                _find(connection, project, id)
                find_class(connection, project, class_id)
                connection.execute(update(photos).where(photos.c.id == id).values(class_id=class_id))
                return _photo(_find(connection, project, id))
        except IntegrityError:
            raise ConflictError(
                "That class has the same photo already.", "Remove one of the two instead."
            ) from None

    def delete(self, project: ProjectId, id: str) -> None:
        """Delete a photo."""
        with self.database.write(reserved=True) as connection:
            lock_project(connection, project)
            row = _find(connection, project, id)
            self.objects.delete_later(connection, [row.content, row.thumbnail])
            connection.execute(delete(photos).where(photos.c.id == id))
        self.objects.try_sweep()

    def _read(self, project: ProjectId, id: str, column: str) -> tuple[DatabaseRow, bytes]:
        with self.database.read() as connection:
            row = _find(connection, project, id)
        try:
            return row, self.objects.read(getattr(row, column))
        except StoreDamagedError:
            self.get(project, id)  # it may have been deleted in the meantime
            raise


def check_digest(content: bytes, digest: str) -> None:
    """Raise ``StoreDamagedError`` unless the SHA-256 of the bytes is the recorded one."""
    if hashlib.sha256(content).hexdigest() != digest:
        raise StoreDamagedError(
            "The stored bytes have changed since they were written.", "Restore the objects from a backup."
        )


def _find(connection: Connection, project: ProjectId, id: str) -> DatabaseRow:
    condition = (photos.c.id == check_id("photo", id)) & (photos.c.project_id == check_id("project", project))
    return find_row(connection, "photo", photos, condition)


def _existing_or_allowed(
    connection: Connection, rows: ProjectRows, class_id: str, digest: str, size: int
) -> Photo | None:
    """Return the photo of the class that has this digest; without one, check the quota for a new photo."""
    find_class(connection, ProjectId(rows.project.id), class_id)
    condition = (photos.c.class_id == class_id) & (photos.c.digest == digest)
    row = connection.execute(select(photos).where(condition)).first()
    if row is not None:
        return _photo(row)
    used = usage(connection, rows.user.id)
    refuse_over("photos", used.photos + 1, rows.user.quota_photos)
    refuse_over("bytes", used.bytes + size, rows.user.quota_bytes)
    return None


def _photo(row: DatabaseRow) -> Photo:
    return Photo(row.id, row.class_id, row.digest, row.bytes, row.media_type, row.created)
