"""The rows of users and projects within a transaction: find and lock them, count what they store, delete what is in them.

Every change of a user's records locks the row of the user first: so quotas hold over all projects, and nothing is written
into a project that is being deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Table, delete, exists, func, insert, select

from ...formatting import count as quantity
from .errors import QuotaError, not_found
from .objects import ObjectStore
from .records import DEFAULT_PROJECT, ProjectId, Usage
from .tables import DatabaseRow, classes, photos, projects, trainings, users, versions
from .values import check_id, new_id, now


class ProjectRows(NamedTuple):
    """A project and its user."""

    project: DatabaseRow
    user: DatabaseRow


def find_row(
    connection: Connection, kind: str, table: Table, condition: ColumnElement[bool], lock: bool = False
) -> DatabaseRow:
    """Return the row of a table; with ``lock`` nobody else changes it until the transaction ends."""
    query = select(table).where(condition)
    row = connection.execute(query.with_for_update() if lock else query).first()
    if row is None:
        raise not_found(kind)
    return row


def find_user(connection: Connection, user: str, lock: bool = False) -> DatabaseRow:
    """Return the row of a user."""
    return find_row(connection, "user", users, users.c.id == check_id("user", user), lock)


def lock_user(connection: Connection, user: str) -> DatabaseRow:
    """Return the row of a user; until the transaction ends nobody else changes the user's records, so quotas hold."""
    return find_user(connection, user, lock=True)


def find_project(connection: Connection, project: str, user: str | None = None) -> DatabaseRow:
    """Return the row of a project, of this user if one is given."""
    condition = projects.c.id == check_id("project", project)
    if user is not None:
        condition &= projects.c.user_id == check_id("user", user)
    return find_row(connection, "project", projects, condition)


def find_project_rows(connection: Connection, project: ProjectId) -> ProjectRows:
    """Return the rows of a project and of its user."""
    row = find_project(connection, project)
    return ProjectRows(row, find_user(connection, row.user_id))


def lock_project(connection: Connection, project: ProjectId) -> ProjectRows:
    """Return the rows of a project and of its user, which is locked until the transaction ends."""
    user = lock_user(connection, find_project(connection, project).user_id)
    return ProjectRows(find_project(connection, project), user)  # again: it may have changed before the lock


def of_user(table: Table, user: str) -> ColumnElement[bool]:
    """Return the condition of the rows in all projects of a user."""
    return table.c.project_id.in_(select(projects.c.id).where(projects.c.user_id == user))


def insert_project(connection: Connection, user: str, name: str = DEFAULT_PROJECT) -> ProjectId:
    """Add an empty project."""
    id = ProjectId(new_id())
    connection.execute(insert(projects).values(id=id, user_id=user, name=name, created=now(), last_version=0))
    return id


def delete_projects(connection: Connection, objects: ObjectStore, condition: ColumnElement[bool]) -> None:
    """Delete projects with everything in them; their objects are deleted by the next sweep."""
    ids = select(projects.c.id).where(condition)
    images = select(photos.c.content, photos.c.thumbnail).where(photos.c.project_id.in_(ids))
    names = [name for row in connection.execute(images) for name in row]
    names += connection.execute(select(versions.c.content).where(versions.c.project_id.in_(ids))).scalars()
    objects.delete_later(connection, names)
    connection.execute(delete(projects).where(condition))


def usage(connection: Connection, user: str) -> Usage:
    """Return how much a user stores, in all projects."""

    def count(table: Table) -> int:
        return int(connection.execute(select(func.count()).where(of_user(table, user))).scalar_one())

    def total(table: Table) -> int:
        query = select(func.sum(table.c.bytes)).where(of_user(table, user))
        return int(connection.execute(query).scalar_one() or 0)

    return Usage(count(classes), count(photos), total(photos) + total(versions), count(versions))


def is_new(connection: Connection, user: str) -> bool:
    """Tell whether a user has what a new one has: one empty project that was neither named nor trained."""
    owned = connection.execute(select(projects).where(projects.c.user_id == user)).all()
    is_trained = exists().where(of_user(trainings, user))
    return (
        [(row.name, row.last_version) for row in owned] == [(DEFAULT_PROJECT, 0)]
        and not any(astuple(usage(connection, user)))
        and not connection.execute(select(is_trained)).scalar_one()
    )


def replaced_versions(connection: Connection, rows: ProjectRows) -> Sequence[DatabaseRow]:
    """Return the versions that a new version of the project replaces, so that the user's quota holds.

    The oldest of this project go first, then the oldest that were trained in other projects; what was uploaded to
    another project may exist nowhere else, and is kept. Current versions are kept, too, but for that of this project,
    which is replaced if there is nothing else to delete.
    """
    owned = of_user(versions, rows.user.id)
    stored = connection.execute(select(func.count()).where(owned)).scalar_one()
    over = stored + 1 - rows.user.quota_versions
    if over <= 0:
        return []
    is_current = (projects.c.id == versions.c.project_id) & (projects.c.current_version == versions.c.number)
    current = exists().where(is_current)
    own = versions.c.project_id == rows.project.id
    candidates = (
        select(versions)
        .where(owned & (own | (~current & (versions.c.source == "trained"))))
        .order_by(current, ~own, versions.c.created, versions.c.number)
    )
    replaced = connection.execute(candidates.limit(over)).all()
    if len(replaced) < over:
        raise QuotaError(
            f"The quota is {quantity(rows.user.quota_versions, 'version')}, and current and uploaded versions of other projects are kept.",
            "Delete versions or a project first, or ask the administrator for a larger quota.",
        )
    return replaced


def refuse_over(unit: str, number: int, quota: int) -> None:
    """Raise ``QuotaError`` if the number would exceed the quota."""
    if number > quota:
        raise QuotaError(
            f"The number of {unit} would be {number:,}; the quota is {quota:,}.",
            "Delete something first, or ask the administrator for a larger quota.",
        )
