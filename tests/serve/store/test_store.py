"""The repositories of the store, in each of its three kinds of location."""

from __future__ import annotations

import hashlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from filmtransfer.errors import InputError
from filmtransfer.serve.settings import LEASE
from filmtransfer.serve.store import (
    ConflictError,
    ImageClass,
    NotFoundError,
    Quota,
    QuotaError,
    Store,
    Usage,
)
from filmtransfer.serve.store.migrate import TABLE
from filmtransfer.serve.store.tables import metadata

from .conftest import files_of


@pytest.fixture
def ann(store: Store) -> str:
    return store.users.create("Ann")[0].id


def add(store: Store, user: str, class_id: str, content: bytes = b"photo"):
    return store.photos.add(user, class_id, content, b"small " + content, "image/jpeg")[0]


def test_users_and_tokens(store: Store):
    ann, token = store.users.create(" Ann ")
    bob, other = store.users.create("Bob", Quota(classes=2))
    assert ann.name == "Ann"
    assert ann.created.tzinfo is UTC
    assert store.users.all() == [ann, bob]
    assert store.users.all(limit=1) == [ann]
    assert store.users.get(bob.id) == bob
    assert bob.quota.classes == 2
    assert store.users.by_token(token) == ann
    assert store.users.by_token(other) == bob
    assert store.users.by_token("nonsense \udc80\0") is None
    new = store.users.new_token(ann.id)
    assert store.users.by_token(token) is None
    assert store.users.by_token(new) == ann
    assert store.users.set_quota(ann.id, Quota(photos=7)).quota.photos == 7
    assert store.users.get(ann.id).quota.photos == 7
    for bad in (Quota(classes=-1), Quota(versions=0), Quota(bytes=2**63)):
        with pytest.raises(InputError):
            store.users.set_quota(ann.id, bad)
    store.ping()


def test_classes(store: Store, ann: str):
    cat, dog = store.classes.add(ann, "cat"), store.classes.add(ann, " dog ")
    assert store.classes.all(ann) == [cat, dog]
    assert dog.name == "dog"
    with pytest.raises(ConflictError):
        store.classes.add(ann, "cat")
    with pytest.raises(ConflictError):
        store.classes.rename(ann, dog.id, "cat")
    add(store, ann, dog.id)
    assert store.classes.rename(ann, dog.id, "wolf") == ImageClass(dog.id, "wolf", 1)
    store.classes.delete(ann, dog.id)
    assert store.classes.all(ann) == [cat]
    assert store.photos.all(ann) == []


def test_photos(store: Store, ann: str, tmp_path: Path):
    cat, dog = store.classes.add(ann, "cat"), store.classes.add(ann, "dog")
    first, second = add(store, ann, cat.id, b"one"), add(store, ann, cat.id, b"two")
    assert add(store, ann, cat.id, b"one") == first
    assert store.photos.all(ann) == store.photos.all(ann, cat.id) == [first, second]
    assert store.photos.all(ann, dog.id) == []
    assert first.digest == hashlib.sha256(b"one").hexdigest()
    assert (first.bytes, first.media_type) == (3, "image/jpeg")
    assert store.photos.content(ann, second.id) == b"two"
    assert store.photos.thumbnail(ann, second.id) == b"small two"
    moved = store.photos.move(ann, first.id, dog.id)
    assert (moved.id, moved.class_id) == (first.id, dog.id)
    again = add(store, ann, cat.id, b"one")
    with pytest.raises(ConflictError):
        store.photos.move(ann, again.id, dog.id)
    assert store.users.usage(ann) == Usage(2, 3, 9, 0)
    for photo in store.photos.all(ann):
        store.photos.delete(ann, photo.id)
    assert store.users.usage(ann) == Usage(2, 0, 0, 0)
    assert files_of(tmp_path / "objects") == []


def test_versions_publish_and_roll_back(store: Store, ann: str, tmp_path: Path):
    assert store.versions.current(ann) is None
    store.users.set_quota(ann, Quota(versions=3))
    for i in (1, 2, 3):
        made = store.versions.publish(ann, b"update %d" % i, "trained", {"stage": "first", "i": i})
        assert (made.number, made.current) == (i, True)
    assert store.versions.current(ann) == made
    assert store.versions.make_current(ann, 1) == store.versions.get(ann, 1) == store.versions.current(ann)
    assert [v.current for v in store.versions.all(ann)] == [False, False, True]
    with pytest.raises(ConflictError):
        store.versions.delete(ann, 1)
    store.versions.delete(ann, 3)
    assert (
        store.versions.publish(ann, b"update 4", "uploaded", {}).number == 4
    )  # a number is never used twice
    store.versions.make_current(ann, 2)
    store.versions.publish(ann, b"update 5", "trained", {})
    assert [v.number for v in store.versions.all(ann)] == [
        5,
        4,
        2,
    ]  # 1 was deleted: the oldest that was not current
    assert store.versions.content(ann, 2) == b"update 2"
    assert store.versions.get(ann, 2).summary == {"stage": "first", "i": 2}
    for deleted in (1, 3, 0, -1, 2**40):
        with pytest.raises(NotFoundError):
            store.versions.content(ann, deleted)
    if (tmp_path / "objects").exists():
        assert len(files_of(tmp_path / "objects")) == 3
    store.users.set_quota(ann, Quota(versions=1))
    assert store.versions.publish(ann, b"update 6", "trained", {}).number == 6
    assert [v.number for v in store.versions.all(ann)] == [6]
    with pytest.raises(InputError):
        store.versions.publish(ann, b"x", "trained", {"accuracy": float("nan")})


def test_quotas_refuse_without_a_trace(store: Store, ann: str, tmp_path: Path):
    store.users.set_quota(ann, Quota(classes=1, photos=2, bytes=10, versions=2))
    cat = store.classes.add(ann, "cat")
    with pytest.raises(QuotaError):
        store.classes.add(ann, "dog")
    add(store, ann, cat.id, b"1234")
    with pytest.raises(QuotaError, match="bytes"):
        add(store, ann, cat.id, b"1234567")
    add(store, ann, cat.id, b"5")
    with pytest.raises(QuotaError, match="photos"):
        add(store, ann, cat.id, b"6")
    with pytest.raises(QuotaError):
        store.versions.publish(ann, b"123456", "trained", {})
    assert store.users.usage(ann) == Usage(1, 2, 5, 0)
    assert len(files_of(tmp_path / "objects")) in (0, 4)


def test_quotas_hold_for_concurrent_writers(store: Store, ann: str, tmp_path: Path):
    store.users.set_quota(ann, Quota(photos=5))
    cat = store.classes.add(ann, "cat")
    start = threading.Barrier(8)

    def one(i: int) -> bool:
        start.wait()
        try:
            add(store, ann, cat.id, b"%d" % i)
        except QuotaError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(one, range(8))) == 5
    assert store.users.usage(ann).photos == 5
    assert len(files_of(tmp_path / "objects")) in (0, 10)


def test_the_same_photo_of_many_threads_is_stored_once(store: Store, ann: str, tmp_path: Path):
    cat = store.classes.add(ann, "cat")
    with ThreadPoolExecutor(6) as pool:
        made = set(pool.map(lambda _: add(store, ann, cat.id, b"same").id, range(6)))
    assert made == {photo.id for photo in store.photos.all(ann)}
    assert len(made) == 1
    assert len(files_of(tmp_path / "objects")) in (0, 2)


def test_versions_published_concurrently_have_different_numbers(store: Store, ann: str):
    with ThreadPoolExecutor(6) as pool:
        made = list(
            pool.map(lambda i: store.versions.publish(ann, b"%d" % i, "trained", {"i": i}), range(12))
        )
    assert sorted(v.number for v in made) == list(range(1, 13))
    assert [v.number for v in store.versions.all(ann) if v.current] == [12]
    for version in made:
        assert store.versions.content(ann, version.number) == b"%d" % version.summary["i"]


def test_records_of_another_user_do_not_exist(store: Store, ann: str):
    bob = store.users.create("Bob")[0].id
    cat = store.classes.add(ann, "cat")
    photo = add(store, ann, cat.id)
    store.versions.publish(ann, b"update", "trained", {})
    training = store.trainings.request(ann, {})
    tries = (
        lambda user, x: store.classes.rename(user, cat.id + x, "dog"),
        lambda user, x: store.classes.delete(user, cat.id + x),
        lambda user, x: add(store, user, cat.id + x),
        lambda user, x: store.photos.all(user, cat.id + x),
        lambda user, x: store.photos.get(user, photo.id + x),
        lambda user, x: store.photos.content(user, photo.id + x),
        lambda user, x: store.photos.thumbnail(user, photo.id + x),
        lambda user, x: store.photos.move(user, photo.id + x, cat.id),
        lambda user, x: store.photos.delete(user, photo.id + x),
        lambda user, x: store.versions.get(user, 1 + len(x)),
        lambda user, x: store.versions.content(user, 1 + len(x)),
        lambda user, x: store.versions.make_current(user, 1 + len(x)),
        lambda user, x: store.versions.delete(user, 1 + len(x)),
        lambda user, x: store.trainings.get(user, training.id + x),
        lambda user, x: store.trainings.events(user, training.id + x),
        lambda user, x: store.trainings.cancel(user, training.id + x),
    )
    for attempt in tries:
        for user, ending in (
            (bob, ""),
            ("0" * 16, ""),
            ("\0", ""),
            ("' OR 1=1", ""),
            (ann, "\0"),
            (ann, "é"),
        ):
            with pytest.raises(NotFoundError):
                attempt(user, ending)
    with pytest.raises(NotFoundError):
        store.photos.move(bob, photo.id, store.classes.add(bob, "x").id)
    with pytest.raises(NotFoundError):
        store.versions.publish(bob, b"update", "trained", {}, training.id) if store.trainings.claim(
            "w", LEASE
        ) else None
    for ask in (
        store.users.get,
        store.users.usage,
        store.classes.all,
        store.photos.all,
        store.versions.all,
        store.versions.current,
    ):
        with pytest.raises(NotFoundError):
            ask("0" * 16)
    assert store.photos.content(ann, photo.id) == b"photo"


def test_a_training_from_request_to_end(store: Store, ann: str):
    bob = store.users.create("Bob")[0].id
    asked = store.trainings.request(ann, {"steps": 5})
    assert (asked.state, asked.options, asked.user) == ("waiting", {"steps": 5}, ann)
    with pytest.raises(ConflictError):
        store.trainings.request(ann, {})
    second = store.trainings.request(bob, {})
    assert store.trainings.count_waiting() == 2
    assert store.trainings.has_claimable()
    taken = store.trainings.claim("w1", LEASE)
    assert taken is not None
    assert (taken.id, taken.state, taken.worker) == (asked.id, "running", "w1")
    assert taken.started is not None
    assert store.trainings.claim("w2", LEASE).id == second.id
    assert store.trainings.claim("w3", LEASE) is None
    assert store.trainings.count_waiting() == 0
    assert not store.trainings.has_claimable()
    assert store.trainings.renew(asked.id, "w1", LEASE)
    assert not store.trainings.renew(asked.id, "w2", LEASE)
    assert store.trainings.add_event(asked.id, "w1", "progress", {"step": 1}).number == 1
    with pytest.raises(ConflictError):
        store.trainings.add_event(asked.id, "w2", "progress", {})
    assert store.versions.publish(ann, b"update", "trained", {}, asked.id).number == 1
    store.trainings.end(asked.id, "w1", "done", "fine \0\udc80")
    kinds = [(e.number, e.kind) for e in store.trainings.events(ann, asked.id)]
    assert kinds == [(1, "progress"), (2, "end")]
    assert [e.data for e in store.trainings.events(ann, asked.id, after=1)] == [
        {"state": "done", "message": "fine ?"}
    ]
    ended = store.trainings.get(ann, asked.id)
    assert (ended.state, ended.message) == ("done", "fine ?")
    assert ended.ended is not None
    assert store.trainings.cancel(ann, asked.id) == ended
    for late in (
        lambda: store.trainings.add_event(asked.id, "w1", "progress", {}),
        lambda: store.trainings.end(asked.id, "w1", "done"),
        lambda: store.versions.publish(ann, b"late", "trained", {}, asked.id),
    ):
        with pytest.raises(ConflictError):
            late()
    again = store.trainings.request(ann, {})
    assert [t.id for t in store.trainings.all(ann)] == [again.id, asked.id]


def test_cancelled_trainings_stop(store: Store, ann: str):
    waits = store.trainings.request(ann, {})
    assert store.trainings.cancel(ann, waits.id).state == "cancelled"
    assert store.trainings.claim("w", LEASE) is None
    runs = store.trainings.request(ann, {})
    store.trainings.claim("w", LEASE)
    assert store.trainings.cancel(ann, runs.id).state == "cancelled"
    assert not store.trainings.renew(runs.id, "w", LEASE)
    with pytest.raises(ConflictError):
        store.versions.publish(ann, b"late", "trained", {}, runs.id)
    for training in (waits, runs):
        assert [(e.kind, e.data["state"]) for e in store.trainings.events(ann, training.id)] == [
            ("end", "cancelled")
        ]
    assert store.versions.all(ann) == []


def test_the_training_of_a_dead_worker_is_claimed_by_another(store: Store, ann: str):
    asked = store.trainings.request(ann, {})
    store.trainings.claim("lost", lease=0.01)
    store.trainings.add_event(asked.id, "lost", "progress", {"step": 1})
    time.sleep(0.03)
    assert store.trainings.has_claimable()
    taken = store.trainings.claim("next", lease=60)
    assert taken is not None
    assert (taken.id, taken.worker) == (asked.id, "next")
    assert store.trainings.claim("third", LEASE) is None
    assert not store.trainings.renew(asked.id, "lost", LEASE)
    with pytest.raises(ConflictError):
        store.versions.publish(ann, b"late", "trained", {}, asked.id, worker="lost")
    with pytest.raises(ConflictError):
        store.trainings.add_event(asked.id, "lost", "progress", {})
    assert store.versions.publish(ann, b"good", "trained", {}, asked.id, worker="next").number == 1
    assert store.trainings.add_event(asked.id, "next", "progress", {}).number == 2


def test_a_training_fails_after_three_dead_workers(store: Store, ann: str):
    asked = store.trainings.request(ann, {})
    for i in range(3):
        assert store.trainings.claim(f"w{i}", lease=0) is not None
        time.sleep(0.002)
    assert store.trainings.claim("w3", LEASE) is None
    assert store.trainings.get(ann, asked.id).state == "failed"
    assert store.trainings.events(ann, asked.id)[-1].kind == "end"


def test_a_released_training_waits_again(store: Store, ann: str):
    asked = store.trainings.request(ann, {})
    for i in range(5):  # a worker that stops is not counted as dead
        assert store.trainings.claim(f"w{i}", LEASE).id == asked.id
        assert store.trainings.release(asked.id, f"w{i}")
        assert not store.trainings.renew(asked.id, f"w{i}", LEASE)
        assert store.trainings.get(ann, asked.id).state == "waiting"


def test_old_trainings_are_deleted(store: Store, ann: str):
    bob = store.users.create("Bob")[0].id
    kept = store.trainings.request(bob, {})
    asked = []
    for _ in range(22):
        asked.append(store.trainings.request(ann, {}).id)
        store.trainings.cancel(ann, asked[-1])
    assert [t.id for t in store.trainings.all(ann)] == asked[:1:-1]
    assert [t.id for t in store.trainings.all(bob)] == [kept.id]
    with pytest.raises(NotFoundError):
        store.trainings.events(ann, asked[0])


def test_deleting_a_user_does_not_affect_others(store: Store, ann: str, tmp_path: Path):
    bob, token = store.users.create("Bob")
    kept = {}
    for user in (ann, bob.id):
        cat = store.classes.add(user, "cat")
        kept[user] = add(store, user, cat.id, b"photo of " + user.encode())
        store.versions.publish(user, b"update of " + user.encode(), "trained", {})
        store.trainings.request(user, {})
    store.users.delete(ann)
    with pytest.raises(NotFoundError):
        store.users.get(ann)
    with pytest.raises(NotFoundError):
        store.users.delete(ann)
    assert store.users.all() == [bob]
    assert store.users.by_token(token) == bob
    assert store.photos.content(bob.id, kept[bob.id].id) == b"photo of " + bob.id.encode()
    assert store.versions.content(bob.id, 1) == b"update of " + bob.id.encode()
    assert store.trainings.count_waiting() == 1
    assert len(files_of(tmp_path / "objects")) in (0, 3)
    assert not any(ann in str(path) for path in tmp_path.rglob("*"))


def test_the_migrations_create_the_declared_tables(store: Store):
    with store.database.read() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": TABLE, "compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_a_store_that_is_opened_again_has_all_records(store: Store, ann: str, location, opened):
    photo = add(store, ann, store.classes.add(ann, "cat").id)
    store.versions.publish(ann, b"update", "trained", {"classes": {"cat": 1}})
    store.close()
    again = opened(location)
    assert again.photos.content(ann, photo.id) == b"photo"
    assert again.versions.current(ann).summary == {"classes": {"cat": 1}}
