"""The classes of projects."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from .database import Database
from .errors import ConflictError
from .objects import ObjectStore
from .records import ImageClass, ProjectId
from .rows import find_project, find_row, lock_project, refuse_over, usage
from .tables import DatabaseRow, classes, photos
from .values import check_id, clean_name, new_id


class ClassRepository:
    """The classes of projects."""

    def __init__(self, database: Database, objects: ObjectStore) -> None:
        self.database = database
        self.objects = objects

    def all(self, project: ProjectId) -> list[ImageClass]:
        """Return the classes of a project in the order of their creation."""
        with self.database.read() as connection:
            find_project(connection, project)
            return _select(connection, classes.c.project_id == project)

    def add(self, project: ProjectId, name: str) -> ImageClass:
        """Create a class without photos."""
        added = ImageClass(new_id(), clean_name("class", name), 0)
        with _unique_name(added.name), self.database.write() as connection:
            user = lock_project(connection, project).user
            connection.execute(insert(classes).values(id=added.id, project_id=project, name=added.name))
            refuse_over("classes", usage(connection, user.id).classes, user.quota_classes)
        return added

    def rename(self, project: ProjectId, id: str, name: str) -> ImageClass:
        """Change the name of a class."""
        name = clean_name("class", name)
        with _unique_name(name), self.database.write() as connection:
            lock_project(connection, project)
            find_class(connection, project, id)
            connection.execute(update(classes).where(classes.c.id == id).values(name=name))
            return _select(connection, classes.c.id == id)[0]

    def delete(self, project: ProjectId, id: str) -> None:
        """Delete a class with its photos."""
        with self.database.write(reserved=True) as connection:
            lock_project(connection, project)
            find_class(connection, project, id)
            of_class = select(photos.c.content, photos.c.thumbnail).where(photos.c.class_id == id)
            self.objects.delete_later(
                connection, [name for row in connection.execute(of_class) for name in row]
            )
            connection.execute(delete(classes).where(classes.c.id == id))
        self.objects.try_sweep()


def find_class(connection: Connection, project: ProjectId, id: str) -> DatabaseRow:
    """Return the row of a project's class."""
    condition = (classes.c.id == check_id("class", id)) & (classes.c.project_id == project)
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
