"""The queue of trainings, and their events.

A worker claims a training for the duration of a lease and renews the lease while it works. If the worker dies, the lease
expires and another worker claims the training; from then on everything that the first worker sends is refused.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update

from ...errors import check_choice
from ..settings import MAX_LEASE
from .database import Database
from .errors import ConflictError, not_found
from .records import Event, JsonObject, ProjectId, Training, TrainingState
from .rows import ProjectRows, find_project, find_row, lock_project, of_user, replaced_versions
from .tables import ACTIVE, DatabaseRow, events, projects, trainings
from .values import check_id, new_id, now, storable, to_json

MAX_CLAIMS = 3  # workers that may die during one training before it counts as failed
MAX_TRAININGS = 20  # of one project; older ones are deleted
ENDED = ("done", "failed", "cancelled")


class TrainingRepository:
    """The queue of trainings and their events."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def request(self, project: ProjectId, options: JsonObject) -> Training:
        """Add a training to the queue; a user has at most one that is waiting or running, in all projects.

        Otherwise one user with many projects could keep all workers busy, and the others would wait.
        """
        encoded = to_json(options)
        training = Training(new_id(), project, "waiting", json.loads(encoded), now(), None, None, "", None)
        with self.database.write() as connection:
            rows = lock_project(connection, project)
            _refuse_second(connection, rows)
            replaced_versions(connection, rows)  # an error now, not when the training has ended
            connection.execute(
                insert(trainings).values(
                    id=training.id, project_id=project, state=training.state, options=encoded,
                    created=training.created, message="", takes=0,
                )
            )  # fmt: skip
            _delete_old(connection, project)
        return training

    def all(self, project: ProjectId) -> list[Training]:
        """Return the trainings of a project, the newest first."""
        with self.database.read() as connection:
            find_project(connection, project)
            rows = select(trainings).where(trainings.c.project_id == project).order_by(trainings.c.seq.desc())
            return [_training(row) for row in connection.execute(rows)]

    def get(self, project: ProjectId, id: str) -> Training:
        """Return one training."""
        with self.database.read() as connection:
            return _training(_find(connection, project, id))

    def count_waiting(self) -> int:
        """Return how many trainings of all users are waiting."""
        with self.database.read() as connection:
            count = connection.execute(select(func.count()).where(trainings.c.state == "waiting"))
            return int(count.scalar_one())

    def has_claimable(self) -> bool:
        """Return whether a worker could claim a training: one is waiting, or its lease has expired."""
        with self.database.read() as connection:
            active = select(trainings.c.seq).where(_claimable(self.database.now(connection))).limit(1)
            return connection.execute(active).first() is not None

    def claim(self, worker: str, lease: float) -> Training | None:
        """Claim the oldest training that is waiting or whose lease has expired; no two workers get the same one."""
        with self.database.write() as connection:
            while True:
                moment = self.database.now(connection)
                row = connection.execute(
                    select(trainings)
                    .where(_claimable(moment))
                    .order_by(trainings.c.seq)
                    .limit(1)
                    .with_for_update(skip_locked=True)
                ).first()
                if row is None:
                    return None
                if row.takes >= MAX_CLAIMS:
                    end_training(connection, row, "failed", f"{MAX_CLAIMS} workers died during it.")
                    continue
                values = {
                    "state": "running", "worker": worker, "started": moment,
                    "lease": _expiry(moment, lease), "takes": row.takes + 1,
                }  # fmt: skip
                connection.execute(update(trainings).where(trainings.c.id == row.id).values(**values))
                return _training(_find(connection, row.project_id, row.id))

    def renew(self, id: str, worker: str, lease: float) -> bool:
        """Renew the lease; return whether the training is still running and this worker's."""
        with self.database.write() as connection:
            expires = _expiry(self.database.now(connection), lease)
            return _update_claimed(connection, id, worker, lease=expires)

    def release(self, id: str, worker: str) -> bool:
        """Return the training to the queue without counting the claim; return whether it was this worker's."""
        with self.database.write(reserved=True) as connection:
            claims = trainings.c.takes - 1
            return _update_claimed(
                connection, id, worker, state="waiting", worker=None, lease=None, takes=claims
            )

    def add_event(self, id: str, worker: str, kind: str, data: JsonObject) -> Event:
        """Add an event; ``ConflictError`` when the training is not this worker's any more."""
        encoded = to_json(data)
        with self.database.write() as connection:
            lock_running(connection, id, worker=worker)
            return add_event(connection, id, storable(kind), encoded)

    def events(self, project: ProjectId, id: str, after: int = 0) -> list[Event]:
        """Return the events of a training with numbers above ``after``."""
        with self.database.read() as connection:
            _find(connection, project, id)
            condition = (events.c.training_id == id) & (events.c.number > min(max(after, 0), 2**31 - 1))
            rows = connection.execute(select(events).where(condition).order_by(events.c.number))
            return [Event(row.number, row.kind, json.loads(row.data)) for row in rows]

    def end(self, id: str, worker: str, state: TrainingState, message: str = "") -> None:
        """End a training of this worker, and add the event "end" unless it has one."""
        check_choice("The end of a training", state, ENDED)
        with self.database.write(reserved=True) as connection:
            end_training(connection, lock_running(connection, id, worker=worker), state, message)

    def cancel(self, project: ProjectId, id: str) -> Training:
        """Cancel a training and add the event "end"; a training that has ended does not change."""
        with self.database.write(reserved=True) as connection:
            row = _find(connection, project, id, lock=True)
            if row.state not in ENDED:
                end_training(connection, row, "cancelled", "")
            return _training(_find(connection, project, id))


def lock_running(
    connection: Connection, id: str, *, project: ProjectId | None = None, worker: str | None = None
) -> DatabaseRow:
    """Return the row of a training that is running (by this worker), locked until the transaction ends."""
    row = connection.execute(select(trainings).where(trainings.c.id == id).with_for_update()).first()
    if row is not None and project is not None and row.project_id != project:
        raise not_found("training")
    if row is None or row.state != "running" or (worker is not None and row.worker != worker):
        raise ConflictError(
            "This training is not running any more, or another worker has claimed it.", "Stop working on it."
        )
    return row


def _expiry(moment: datetime, lease: float) -> datetime:
    """Return when a lease of these seconds expires that is granted now."""
    return moment + timedelta(seconds=min(lease, MAX_LEASE))


def _claimable(moment: datetime) -> ColumnElement[bool]:
    """Return the condition of a training that is waiting or whose lease has expired.

    A lease that ends later than any that is granted now was granted before the clock was set back. It has expired too, or
    the training of a dead worker would wait for the clock; if its worker lives, at worst the training runs twice.
    """
    expired = (trainings.c.lease < moment) | (trainings.c.lease > _expiry(moment, MAX_LEASE))
    return (trainings.c.state == "waiting") | ((trainings.c.state == "running") & expired)


def _update_claimed(connection: Connection, id: str, owner: str, **values: object) -> bool:
    claimed = (trainings.c.id == id) & (trainings.c.worker == owner) & (trainings.c.state == "running")
    return connection.execute(update(trainings).where(claimed).values(**values)).rowcount == 1


def _find(connection: Connection, project: ProjectId, id: str, lock: bool = False) -> DatabaseRow:
    condition = (trainings.c.id == check_id("training", id)) & (
        trainings.c.project_id == check_id("project", project)
    )
    return find_row(connection, "training", trainings, condition, lock)


def _refuse_second(connection: Connection, rows: ProjectRows) -> None:
    """Raise ``ConflictError`` if the user has an active training; the user is locked, so no other one can be added."""
    active = select(trainings.c.project_id).where(ACTIVE, of_user(trainings, rows.user.id))
    trained = connection.execute(active.limit(1)).scalar_one_or_none()
    if trained is None:
        return
    what = "A training is waiting or running already."
    if trained != rows.project.id:
        name = connection.execute(select(projects.c.name).where(projects.c.id == trained)).scalar_one()
        what = f"Another project of yours, {name!r}, is waiting for its training or being trained."
    raise ConflictError(what, "Wait until it has ended, or cancel it.")


def _delete_old(connection: Connection, project: ProjectId) -> None:
    """Delete all but the newest trainings with their events, which would outgrow everything else."""
    own = trainings.c.project_id == project
    newest = select(trainings.c.seq).where(own).order_by(trainings.c.seq.desc()).limit(MAX_TRAININGS)
    connection.execute(delete(trainings).where(own & trainings.c.seq.not_in(newest)))


def end_training(connection: Connection, row: DatabaseRow, state: TrainingState, message: str) -> None:
    """Set the state and add the last event in one transaction, so that a reader of the events always sees the end."""
    message = storable(message)
    connection.execute(
        update(trainings).where(trainings.c.id == row.id).values(state=state, message=message, ended=now())
    )
    last = (
        select(events.c.kind).where(events.c.training_id == row.id).order_by(events.c.number.desc()).limit(1)
    )
    if connection.execute(last).scalar_one_or_none() != "end":
        add_event(connection, row.id, "end", to_json({"state": state, "message": message}))


def add_event(connection: Connection, id: str, kind: str, encoded: str) -> Event:
    """Add an event to a training within a transaction, with the next number."""
    highest = select(func.max(events.c.number)).where(events.c.training_id == id)
    number = (connection.execute(highest).scalar_one() or 0) + 1
    connection.execute(insert(events).values(training_id=id, number=number, kind=kind, data=encoded))
    return Event(number, kind, json.loads(encoded))


def _training(row: DatabaseRow) -> Training:
    return Training(
        row.id, ProjectId(row.project_id), row.state, json.loads(row.options), row.created, row.started, row.ended,
        row.message, row.worker,
    )  # fmt: skip
