"""The projects of users: each is a classifier with its own classes, photos, trainings and versions."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, func, select, update

from ..settings import MAX_PROJECTS
from .database import Database
from .errors import QuotaError
from .objects import ObjectStore
from .records import Project, ProjectId
from .rows import delete_projects, find_project, find_user, insert_project, lock_user
from .tables import classes, photos, projects
from .values import clean_name


class ProjectRepository:
    """The projects of users. A user always has at least one."""

    def __init__(self, database: Database, objects: ObjectStore) -> None:
        self.database = database
        self.objects = objects

    def resolve(self, user: str, id: str | None = None) -> ProjectId:
        """Return the id of a user's project, by default the oldest; that of another user's is not found."""
        with self.database.read() as connection:
            if id is not None:
                return ProjectId(find_project(connection, id, user).id)
            find_user(connection, user)
            oldest = select(projects.c.id).where(projects.c.user_id == user).order_by(projects.c.seq).limit(1)
            return ProjectId(connection.execute(oldest).scalar_one())

    def get(self, project: ProjectId) -> Project:
        """Return one project."""
        with self.database.read() as connection:
            find_project(connection, project)
            return _select(connection, projects.c.id == project)[0]

    def all(self, user: str) -> list[Project]:
        """Return the projects of a user, the oldest first."""
        with self.database.read() as connection:
            find_user(connection, user)
            return _select(connection, projects.c.user_id == user)

    def create(self, user: str, name: str) -> Project:
        """Create an empty project."""
        name = clean_name("project", name)
        with self.database.write() as connection:
            lock_user(connection, user)
            _refuse_too_many(connection, user)
            return _select(connection, projects.c.id == insert_project(connection, user, name))[0]

    def rename(self, user: str, id: str, name: str) -> Project:
        """Change the name of a project."""
        name = clean_name("project", name)
        with self.database.write() as connection:
            lock_user(connection, user)
            this = projects.c.id == find_project(connection, id, user).id
            connection.execute(update(projects).where(this).values(name=name))
            return _select(connection, this)[0]

    def delete(self, user: str, id: str) -> None:
        """Delete a project with everything in it; instead of the last one there is a new empty one."""
        with self.database.write(reserved=True) as connection:
            lock_user(connection, user)
            delete_projects(connection, self.objects, projects.c.id == find_project(connection, id, user).id)
            if _count(connection, user) == 0:
                insert_project(connection, user)
        self.objects.try_sweep()


def _count(connection: Connection, user: str) -> int:
    return int(connection.execute(select(func.count()).where(projects.c.user_id == user)).scalar_one())


def _refuse_too_many(connection: Connection, user: str) -> None:
    if _count(connection, user) >= MAX_PROJECTS:
        raise QuotaError(
            f"You have {MAX_PROJECTS} projects already, and more are not possible.",
            "Delete a project that you no longer need.",
        )


def _select(connection: Connection, condition: ColumnElement[bool]) -> list[Project]:
    counts = (
        select(func.count()).where(table.c.project_id == projects.c.id).scalar_subquery().label(table.name)
        for table in (classes, photos)
    )
    rows = connection.execute(select(projects, *counts).where(condition).order_by(projects.c.seq))
    return [
        Project(
            ProjectId(row.id), row.name, row.created, row.fit_classes, row.fit_photos, row.current_version
        )
        for row in rows
    ]
