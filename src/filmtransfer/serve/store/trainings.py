"""The queue of trainings, and what each has to say.

A worker takes a training for the length of a lease and renews it while it works. A worker that dies lets the lease run
out, and another one takes over; from then on the first one, should it live after all, is refused everything.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from ...errors import invalid_choice
from .database import Database
from .errors import ConflictError, no_such
from .names import known_id, new_id, now, packed, plain
from .records import Event, State, Training
from .schema import events, trainings
from .users import find_user, lock_user

TAKES = 3  # workers that may die of one training before it counts as failed
KEPT = 20  # trainings of one user, the newest
ENDS = ("done", "failed", "cancelled")


class Trainings:
    def __init__(self, database: Database) -> None:
        self.database = database

    def ask(self, user: str, options: dict[str, Any]) -> Training:
        said = packed(options)
        made = Training(new_id(), user, "waiting", json.loads(said), now(), None, None, "", None)
        try:
            with self.database.write() as connection:
                lock_user(connection, user)
                connection.execute(
                    insert(trainings).values(
                        id=made.id, user_id=user, state=made.state, options=said, created=made.created, message="", takes=0
                    )
                )  # fmt: skip
                _forget_old(connection, user)
        except IntegrityError:
            raise ConflictError(
                "A training waits or runs already.", "Wait for its end, or cancel it first."
            ) from None
        return made

    def all(self, user: str) -> list[Training]:
        with self.database.read() as connection:
            find_user(connection, user)
            rows = select(trainings).where(trainings.c.user_id == user).order_by(trainings.c.seq.desc())
            return [_training(row) for row in connection.execute(rows)]

    def one(self, user: str, id: str) -> Training:
        with self.database.read() as connection:
            return _training(_find(connection, user, id))

    def waiting(self) -> int:
        with self.database.read() as connection:
            count = connection.execute(select(func.count()).where(trainings.c.state == "waiting"))
            return int(count.scalar_one())

    def take(self, worker: str, lease: float) -> Training | None:
        with self.database.write() as connection:
            while True:
                moment = self.database.now(connection)
                lost = (trainings.c.state == "running") & (trainings.c.lease < moment)
                row = connection.execute(
                    select(trainings)
                    .where((trainings.c.state == "waiting") | lost)
                    .order_by(trainings.c.seq)
                    .limit(1)
                    .with_for_update(skip_locked=True)
                ).first()
                if row is None:
                    return None
                if row.takes >= TAKES:
                    _end(connection, row, "failed", f"{TAKES} workers died of it.")
                    continue
                values = {
                    "state": "running", "worker": worker, "started": moment,
                    "lease": moment + timedelta(seconds=lease), "takes": row.takes + 1,
                }  # fmt: skip
                connection.execute(update(trainings).where(trainings.c.id == row.id).values(**values))
                return _training(_find(connection, row.user_id, row.id))

    def keep(self, id: str, worker: str, lease: float) -> bool:
        with self.database.write() as connection:
            ours = (trainings.c.id == id) & (trainings.c.worker == worker) & (trainings.c.state == "running")
            values: dict[str, Any] = {"lease": self.database.now(connection) + timedelta(seconds=lease)}
            if lease <= 0:  # given back by a worker that ends in good health
                values |= {"state": "waiting", "worker": None, "takes": trainings.c.takes - 1}
            return connection.execute(update(trainings).where(ours).values(**values)).rowcount == 1

    def tell(self, id: str, worker: str, kind: str, data: dict[str, Any]) -> Event:
        said = packed(data)
        with self.database.write() as connection:
            lock_running(connection, id, worker=worker)
            return _add_event(connection, id, plain(kind), said)

    def events(self, user: str, id: str, after: int) -> list[Event]:
        with self.database.read() as connection:
            _find(connection, user, id)
            which = (events.c.training_id == id) & (events.c.number > min(max(after, 0), 2**31 - 1))
            rows = connection.execute(select(events).where(which).order_by(events.c.number))
            return [Event(row.number, row.kind, json.loads(row.data)) for row in rows]

    def end(self, id: str, worker: str, state: State, message: str) -> None:
        if state not in ENDS:
            raise invalid_choice("The end of a training", state, ENDS)
        with self.database.write() as connection:
            _end(connection, lock_running(connection, id, worker=worker), state, message)

    def cancel(self, user: str, id: str) -> Training:
        with self.database.write() as connection:
            row = _find(connection, user, id, lock=True)
            if row.state not in ENDS:
                _end(connection, row, "cancelled", "")
            return _training(_find(connection, user, id))


def lock_running(
    connection: Connection, id: str, *, user: str | None = None, worker: str | None = None
) -> Row[Any]:
    """The training, if it still runs (and is still this worker's): it stays so until the transaction ends."""
    row = connection.execute(select(trainings).where(trainings.c.id == id).with_for_update()).first()
    if row is not None and user is not None and row.user_id != user:
        raise no_such("training")
    if row is None or row.state != "running" or (worker is not None and row.worker != worker):
        raise ConflictError(
            "This training does not run any more, or another worker has it.", "Stop working on it."
        )
    return row


def _find(connection: Connection, user: str, id: str, lock: bool = False) -> Row[Any]:
    which = (trainings.c.id == known_id("training", id)) & (trainings.c.user_id == known_id("user", user))
    query = select(trainings).where(which)
    row = connection.execute(query.with_for_update() if lock else query).first()
    if row is None:
        raise no_such("training")
    return row


def _forget_old(connection: Connection, user: str) -> None:
    """Trainings of long ago go with their events, or these would outgrow all else."""
    of_user = trainings.c.user_id == user
    kept = select(trainings.c.seq).where(of_user).order_by(trainings.c.seq.desc()).limit(KEPT)
    connection.execute(delete(trainings).where(of_user & trainings.c.seq.not_in(kept)))


def _end(connection: Connection, row: Row[Any], state: State, message: str) -> None:
    """State and last event in one: whoever follows the events always sees an end."""
    message = plain(message)
    connection.execute(
        update(trainings).where(trainings.c.id == row.id).values(state=state, message=message, ended=now())
    )
    last = (
        select(events.c.kind).where(events.c.training_id == row.id).order_by(events.c.number.desc()).limit(1)
    )
    if connection.execute(last).scalar_one_or_none() != "end":
        _add_event(connection, row.id, "end", packed({"state": state, "message": message}))


def _add_event(connection: Connection, id: str, kind: str, said: str) -> Event:
    highest = connection.execute(
        select(func.max(events.c.number)).where(events.c.training_id == id)
    ).scalar_one()
    number = (highest or 0) + 1
    connection.execute(insert(events).values(training_id=id, number=number, kind=kind, data=said))
    return Event(number, kind, json.loads(said))


def _training(row: Row[Any]) -> Training:
    return Training(
        row.id, row.user_id, row.state, json.loads(row.options), row.created, row.started, row.ended,
        row.message, row.worker,
    )  # fmt: skip
