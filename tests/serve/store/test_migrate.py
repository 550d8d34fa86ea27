"""Databases of earlier versions: what their users had is there, in one project of each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from filmtransfer.serve.settings import LEASE
from filmtransfer.serve.store import Quota, Store, StoreLocation, Usage
from filmtransfer.serve.store.database import APPLICATION, Database
from filmtransfer.serve.store.migrate import FOLDER, TABLE
from filmtransfer.serve.store.tables import metadata
from filmtransfer.serve.store.users import hash_token

NOW = 1_700_000_000_000_000  # microseconds
NAMES = ("ann", "bob", "new")


def write_first_revision(location: StoreLocation) -> None:
    """Write a database as the first revision left it: Ann and Bob have records of every kind, the third user none."""
    database = Database(location.database)
    scripts = ScriptDirectory(str(FOLDER), version_locations=[str(FOLDER)])
    with database.write() as connection:
        if database.is_sqlite:
            connection.execute(sa.text(f"PRAGMA application_id={APPLICATION}"))
        environment = EnvironmentContext(
            Config(), scripts, fn=lambda now, _: scripts._upgrade_revs("0001", now)
        )
        with environment:
            environment.configure(connection=connection, version_table=TABLE)
            environment.run_migrations()
        tables = sa.MetaData()
        tables.reflect(connection)
        rows = _rows(None if location.objects is None else Path(location.objects))
        for table in tables.sorted_tables:
            if rows.get(table.name):
                connection.execute(sa.insert(table), rows[table.name])
    database.close()


def _rows(objects: Path | None) -> dict[str, list[dict[str, object]]]:
    rows: dict[str, list[dict[str, object]]] = {f"fit_{kind}": [] for kind in (
        "users", "classes", "photos", "versions", "trainings", "events", "objects")}  # fmt: skip

    def store(user: str, name: str, content: bytes) -> str:
        name = f"{user[:2]}/{user}/{name}"
        if objects is None:
            rows["fit_objects"].append({"name": name, "content": content})
        else:
            (objects / name).parent.mkdir(parents=True, exist_ok=True)
            (objects / name).write_bytes(content)
        return name

    for k, name in enumerate(NAMES):
        user = f"{k:016x}"
        quota = {f"quota_{unit}": value for unit, value in vars(Quota(photos=7)).items()}
        rows["fit_users"].append(
            {"seq": 10 + k, "id": user, "name": name, "created": NOW + k, "token_digest": hash_token(name), **quota,
             "last_version": 0 if name == "new" else 5, "current_version": None if name == "new" else 4}
        )  # fmt: skip
        if name == "new":
            continue
        for i in range(2):
            id, text = f"{16 + 2 * k + i:016x}", f"{name} {i}"
            rows["fit_classes"].append(
                {"seq": 20 + 2 * i + k, "id": id, "user_id": user, "name": f"class {i}"}
            )
            rows["fit_photos"].append(
                {"seq": 30 + 2 * k + i, "id": id, "user_id": user, "class_id": id, "bytes": len(text),
                 "digest": hashlib.sha256(text.encode()).hexdigest(), "media_type": "image/png", "created": NOW + i,
                 "content": store(user, f"photo{i}", text.encode()), "thumbnail": store(user, f"small{i}", b"small")}
            )  # fmt: skip
            rows["fit_versions"].append(
                {"user_id": user, "number": 4 + i, "created": NOW + i, "bytes": len(text), "source": "trained",
                 "digest": hashlib.sha256(text.encode()).hexdigest(), "summary": '{"stage": "first"}',
                 "content": store(user, f"update{i}", text.encode())}
            )  # fmt: skip
            rows["fit_trainings"].append(
                {"seq": 40 + 2 * k + i, "id": id, "user_id": user, "state": ("done", "waiting")[i], "options": "{}",
                 "created": NOW + i, "message": "", "takes": 0}
            )  # fmt: skip
            rows["fit_events"].append(
                {"training_id": id, "number": 1, "kind": "progress", "data": '{"step": 1}'}
            )
    return rows


@pytest.fixture
def migrated(location: StoreLocation, opened: Callable[[StoreLocation], Store]) -> Store:
    write_first_revision(location)
    return opened(location)


def test_every_user_has_one_project_with_all_records(migrated: Store):
    store = migrated
    assert [user.name for user in store.users.all()] == list(NAMES)
    for name in ("ann", "bob"):
        user = store.users.by_token(name)
        assert user is not None
        (project,) = store.projects.all(user.id)
        assert (project.name, project.created, project.classes, project.photos, project.current) == (
            "My classifier", user.created, 2, 2, 4,
        )  # fmt: skip
        assert project.id != user.id
        assert [one.name for one in store.classes.all(project.id)] == ["class 0", "class 1"]
        photos = store.photos.all(project.id)
        assert [store.photos.content(project.id, one.id) for one in photos] == [
            f"{name} {i}".encode() for i in (0, 1)
        ]
        assert [store.photos.thumbnail(project.id, one.id) for one in photos] == [b"small", b"small"]
        assert [one.number for one in store.versions.all(project.id)] == [5, 4]
        assert store.versions.content(project.id, 4) == f"{name} 0".encode()
        assert store.versions.current(project.id).summary == {"stage": "first"}
        waiting, done = store.trainings.all(project.id)
        assert (waiting.state, done.state) == ("waiting", "done")
        assert [event.data for event in store.trainings.events(project.id, done.id)] == [{"step": 1}]
        assert store.users.usage(user.id) == Usage(2, 2, 4 * len(f"{name} 0"), 2)
    (empty,) = store.projects.all(store.users.by_token("new").id)
    assert (empty.name, empty.classes, empty.photos, empty.current) == ("My classifier", 0, 0, None)


def test_a_migrated_store_goes_on(migrated: Store):
    """New rows do not collide with old ones, numbers of versions continue, and the queue and the quota are kept."""
    store = migrated
    user = store.users.by_token("ann")
    project = store.projects.resolve(user.id)
    assert store.projects.create(user.id, "second").name == "second"
    made = store.classes.add(project, "class 2")
    assert [one.name for one in store.classes.all(project)] == ["class 0", "class 1", "class 2"]
    store.photos.add(project, made.id, b"new", b"small", "image/png")
    assert store.versions.publish(project, b"update", "trained", {}).number == 6
    assert store.trainings.claim("worker", LEASE).project == project
    assert user.quota == Quota(photos=7)
    store.users.create("Carl")
    store.users.delete(user.id)
    assert [one.name for one in store.users.all()] == ["bob", "new", "Carl"]


def test_a_migration_leaves_the_declared_tables(migrated: Store):
    assert differences(migrated) == []
    with migrated.database.read() as connection:
        assert set(sa.inspect(connection).get_table_names()) == {*metadata.tables, TABLE}


def test_the_migrations_create_the_declared_tables(store: Store):
    assert differences(store) == []


def differences(store: Store) -> list[object]:
    """Return how the tables of the database differ from the declared ones."""
    with store.database.read() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": TABLE, "compare_type": True})
        return list(compare_metadata(context, metadata))
