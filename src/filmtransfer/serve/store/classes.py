"""The classes of users."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from .database import Database
from .errors import ConflictError
from .objects import ObjectStore
from .records import ImageClass
from .tables import DatabaseRow, classes, photos
from .users import find_row, find_user, lock_user, refuse_over, usage
from .values import check_id, clean_name, new_id


class ClassRepository:
    """The classes of users."""

    def __init__(self, database: Database, objects: ObjectStore) -> None:
        self.database = database
        self.objects = objects

    def all(self, user: str) -> list[ImageClass]:
        """Return the classes of a user in the order of their creation."""
        with self.database.read() as connection:
            find_user(connection, user)
            return _select(connection, classes.c.user_id == user)

    def add(self, user: str, name: str) -> ImageClass:
        """Create a class without photos."""
        added = ImageClass(new_id(), clean_name("class", name), 0)
        with _unique_name(added.name), self.database.write() as connection:
            quota = lock_user(connection, user).quota_classes
            connection.execute(insert(classes).values(id=added.id, user_id=user, name=added.name))
            refuse_over("classes", usage(connection, user).classes, quota)
        return added

    def rename(self, user: str, id: str, name: str) -> ImageClass:
        """Change the name of a class."""
        name = clean_name("class", name)
        with _unique_name(name), self.database.write() as connection:
            lock_user(connection, user)
            find_class(connection, user, id)
            connection.execute(update(classes).where(classes.c.id == id).values(name=name))
            return _select(connection, classes.c.id == id)[0]

    def delete(self, user: str, id: str) -> None:
        """Delete a class with its photos."""
        with self.database.write() as connection:
            lock_user(connection, user)
            find_class(connection, user, id)
            of_class = select(photos.c.content, photos.c.thumbnail).where(photos.c.class_id == id)
            self.objects.delete_later(
                connection, [name for row in connection.execute(of_class) for name in row]
            )
            connection.execute(delete(classes).where(classes.c.id == id))
        self.objects.try_sweep()


def find_class(connection: Connection, user: str, id: str) -> DatabaseRow:
    """Return the row of a user's class."""
    condition = (classes.c.id == check_id("class", id)) & (classes.c.user_id == user)
    return find_row(connection, "class", classes, condition)


@contextmanager
def _unique_name(name: str) -> Iterator[None]:
    try:
        yield
    except IntegrityError:
        raise ConflictError(f"There is a class called {name!r} already.", "Choose another name.") from None


def _select(connection: Connection, condition: ColumnElement[bool]) -> list[ImageClass]:
    count = select(func.count()).where(photos.c.class_id == classes.c.id).scalar_subquery()
    query = select(classes.c.id, classes.c.name, count.label("photos"))
    rows = connection.execute(query.where(condition).order_by(classes.c.seq))
    return [ImageClass(row.id, row.name, row.photos) for row in rows]
