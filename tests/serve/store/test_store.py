"""The repositories of the store, in each of its three kinds of location."""

from __future__ import annotations

import hashlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, timedelta
from pathlib import Path

import pytest

from filmtransfer.errors import InputError
from filmtransfer.serve.settings import LEASE
from filmtransfer.serve.store import (
    ConflictError,
    ImageClass,
    NotFoundError,
    ProjectId,
    Quota,
    QuotaError,
    Store,
    Usage,
    database,
    objects,
)
from filmtransfer.serve.store.values import now

from .conftest import files_of


@pytest.fixture
def ann(store: Store) -> str:
    return store.users.create("Ann")[0].id


@pytest.fixture
def project(store: Store, ann: str) -> ProjectId:
    return store.projects.resolve(ann)


def add(store: Store, project: ProjectId, class_id: str, content: bytes = b"photo"):
    return store.photos.add(project, class_id, content, b"small " + content, "image/jpeg")[0]


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


def test_classes(store: Store, project: ProjectId):
    cat, dog = store.classes.add(project, "cat"), store.classes.add(project, " dog ")
    assert store.classes.all(project) == [cat, dog]
    assert dog.name == "dog"
    with pytest.raises(ConflictError):
        store.classes.add(project, "cat")
    with pytest.raises(ConflictError):
        store.classes.rename(project, dog.id, "cat")
    add(store, project, dog.id)
    assert store.classes.rename(project, dog.id, "wolf") == ImageClass(dog.id, "wolf", 1)
    store.classes.delete(project, dog.id)
    assert store.classes.all(project) == [cat]
    assert store.photos.all(project) == []


def test_photos(store: Store, ann: str, project: ProjectId, tmp_path: Path):
    cat, dog = store.classes.add(project, "cat"), store.classes.add(project, "dog")
    first, second = add(store, project, cat.id, b"one"), add(store, project, cat.id, b"two")
    assert add(store, project, cat.id, b"one") == first
    assert store.photos.all(project) == store.photos.all(project, cat.id) == [first, second]
    assert store.photos.all(project, dog.id) == []
    assert first.digest == hashlib.sha256(b"one").hexdigest()
    assert (first.bytes, first.media_type) == (3, "image/jpeg")
    assert store.photos.content(project, second.id) == b"two"
    assert store.photos.thumbnail(project, second.id) == b"small two"
    moved = store.photos.move(project, first.id, dog.id)
    assert (moved.id, moved.class_id) == (first.id, dog.id)
    again = add(store, project, cat.id, b"one")
    with pytest.raises(ConflictError):
        store.photos.move(project, again.id, dog.id)
    assert store.users.usage(ann) == Usage(2, 3, 9, 0)
    for photo in store.photos.all(project):
        store.photos.delete(project, photo.id)
    assert store.users.usage(ann) == Usage(2, 0, 0, 0)
    assert files_of(tmp_path / "objects") == []


def test_versions_publish_and_roll_back(store: Store, ann: str, project: ProjectId, tmp_path: Path):
    assert store.versions.current(project) is None
    store.users.set_quota(ann, Quota(versions=3))
    for i in (1, 2, 3):
        made = store.versions.publish(project, b"update %d" % i, "trained", {"stage": "first", "i": i})
        assert (made.number, made.current) == (i, True)
    assert store.versions.current(project) == made
    assert (
        store.versions.make_current(project, 1)
        == store.versions.get(project, 1)
        == store.versions.current(project)
    )
    assert [v.current for v in store.versions.all(project)] == [False, False, True]
    with pytest.raises(ConflictError):
        store.versions.delete(project, 1)
    store.versions.delete(project, 3)
    assert (
        store.versions.publish(project, b"update 4", "uploaded", {}).number == 4
    )  # a number is never used twice
    store.versions.make_current(project, 2)
    store.versions.publish(project, b"update 5", "trained", {})
    assert [v.number for v in store.versions.all(project)] == [
        5,
        4,
        2,
    ]  # 1 was deleted: the oldest that was not current
    assert store.versions.content(project, 2) == b"update 2"
    assert store.versions.get(project, 2).summary == {"stage": "first", "i": 2}
    for deleted in (1, 3, 0, -1, 2**40):
        with pytest.raises(NotFoundError):
            store.versions.content(project, deleted)
    if (tmp_path / "objects").exists():
        assert len(files_of(tmp_path / "objects")) == 3
    store.users.set_quota(ann, Quota(versions=1))
    assert store.versions.publish(project, b"update 6", "trained", {}).number == 6
    assert [v.number for v in store.versions.all(project)] == [6]
    with pytest.raises(InputError):
        store.versions.publish(project, b"x", "trained", {"accuracy": float("nan")})


def test_quotas_refuse_without_a_trace(store: Store, ann: str, project: ProjectId, tmp_path: Path):
    store.users.set_quota(ann, Quota(classes=1, photos=2, bytes=10, versions=2))
    cat = store.classes.add(project, "cat")
    with pytest.raises(QuotaError, match=r"The number of classes would be 2; the quota is 1\."):
        store.classes.add(project, "dog")
    add(store, project, cat.id, b"1234")
    with pytest.raises(QuotaError, match="bytes"):
        add(store, project, cat.id, b"1234567")
    add(store, project, cat.id, b"5")
    with pytest.raises(QuotaError, match="photos"):
        add(store, project, cat.id, b"6")
    with pytest.raises(QuotaError):
        store.versions.publish(project, b"123456", "trained", {})
    assert store.users.usage(ann) == Usage(1, 2, 5, 0)
    assert len(files_of(tmp_path / "objects")) in (0, 4)


def test_quotas_hold_for_concurrent_writers(store: Store, ann: str, project: ProjectId, tmp_path: Path):
    store.users.set_quota(ann, Quota(photos=5))
    cat = store.classes.add(project, "cat")
    start = threading.Barrier(8)

    def one(i: int) -> bool:
        start.wait()
        try:
            add(store, project, cat.id, b"%d" % i)
        except QuotaError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(one, range(8))) == 5
    assert store.users.usage(ann).photos == 5
    assert len(files_of(tmp_path / "objects")) in (0, 10)


def test_the_same_photo_of_many_threads_is_stored_once(store: Store, project: ProjectId, tmp_path: Path):
    cat = store.classes.add(project, "cat")
    with ThreadPoolExecutor(6) as pool:
        made = set(pool.map(lambda _: add(store, project, cat.id, b"same").id, range(6)))
    assert made == {photo.id for photo in store.photos.all(project)}
    assert len(made) == 1
    assert len(files_of(tmp_path / "objects")) in (0, 2)


def test_versions_published_concurrently_have_different_numbers(store: Store, project: ProjectId):
    with ThreadPoolExecutor(6) as pool:
        made = list(
            pool.map(lambda i: store.versions.publish(project, b"%d" % i, "trained", {"i": i}), range(12))
        )
    assert sorted(v.number for v in made) == list(range(1, 13))
    assert [v.number for v in store.versions.all(project) if v.current] == [12]
    for version in made:
        assert store.versions.content(project, version.number) == b"%d" % version.summary["i"]


@pytest.mark.parametrize("whose", ["another user's", "another of the same user"])
def test_records_of_another_project_do_not_exist(store: Store, ann: str, whose: str, project: ProjectId):
    bob = store.users.create("Bob")[0].id
    other = (
        store.projects.resolve(bob) if whose == "another user's" else store.projects.create(ann, "more").id
    )
    cat = store.classes.add(project, "cat")
    photo = add(store, project, cat.id)
    store.versions.publish(project, b"update", "trained", {})
    training = store.trainings.request(project, {})
    tries = (
        lambda project, x: store.classes.rename(project, cat.id + x, "dog"),
        lambda project, x: store.classes.delete(project, cat.id + x),
        lambda project, x: add(store, project, cat.id + x),
        lambda project, x: store.photos.all(project, cat.id + x),
        lambda project, x: store.photos.get(project, photo.id + x),
        lambda project, x: store.photos.content(project, photo.id + x),
        lambda project, x: store.photos.thumbnail(project, photo.id + x),
        lambda project, x: store.photos.move(project, photo.id + x, cat.id),
        lambda project, x: store.photos.delete(project, photo.id + x),
        lambda project, x: store.versions.get(project, 1 + len(x)),
        lambda project, x: store.versions.content(project, 1 + len(x)),
        lambda project, x: store.versions.make_current(project, 1 + len(x)),
        lambda project, x: store.versions.delete(project, 1 + len(x)),
        lambda project, x: store.trainings.get(project, training.id + x),
        lambda project, x: store.trainings.events(project, training.id + x),
        lambda project, x: store.trainings.cancel(project, training.id + x),
    )
    for attempt in tries:
        for one, ending in (
            (other, ""),
            ("0" * 16, ""),
            ("\0", ""),
            ("' OR 1=1", ""),
            (project, "\0"),
            (project, "é"),
        ):
            with pytest.raises(NotFoundError):
                attempt(one, ending)
    with pytest.raises(NotFoundError):
        store.photos.move(other, photo.id, store.classes.add(other, "x").id)
    with pytest.raises(NotFoundError):
        store.photos.move(project, photo.id, store.classes.add(other, "y").id)
    assert store.trainings.claim("w", LEASE)
    with pytest.raises(NotFoundError):
        store.versions.publish(other, b"update", "trained", {}, training.id)
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
    assert store.photos.content(project, photo.id) == b"photo"


def test_a_training_from_request_to_end(store: Store, project: ProjectId):
    bobs = store.projects.resolve(store.users.create("Bob")[0].id)
    asked = store.trainings.request(project, {"steps": 5})
    assert (asked.state, asked.options, asked.project) == ("waiting", {"steps": 5}, project)
    with pytest.raises(ConflictError):
        store.trainings.request(project, {})
    second = store.trainings.request(bobs, {})
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
    assert store.versions.publish(project, b"update", "trained", {}, asked.id).number == 1
    store.trainings.end(asked.id, "w1", "done", "fine \0\udc80")
    kinds = [(e.number, e.kind) for e in store.trainings.events(project, asked.id)]
    assert kinds == [(1, "progress"), (2, "version"), (3, "end")]
    assert [e.data for e in store.trainings.events(project, asked.id, after=2)] == [
        {"state": "done", "message": "fine ?"}
    ]
    ended = store.trainings.get(project, asked.id)
    assert (ended.state, ended.message) == ("done", "fine ?")
    assert ended.ended is not None
    assert store.trainings.cancel(project, asked.id) == ended
    for late in (
        lambda: store.trainings.add_event(asked.id, "w1", "progress", {}),
        lambda: store.trainings.end(asked.id, "w1", "done"),
        lambda: store.versions.publish(project, b"late", "trained", {}, asked.id),
    ):
        with pytest.raises(ConflictError):
            late()
    again = store.trainings.request(project, {})
    assert [t.id for t in store.trainings.all(project)] == [again.id, asked.id]


def test_cancelled_trainings_stop(store: Store, project: ProjectId):
    waits = store.trainings.request(project, {})
    assert store.trainings.cancel(project, waits.id).state == "cancelled"
    assert store.trainings.claim("w", LEASE) is None
    runs = store.trainings.request(project, {})
    store.trainings.claim("w", LEASE)
    assert store.trainings.cancel(project, runs.id).state == "cancelled"
    assert not store.trainings.renew(runs.id, "w", LEASE)
    with pytest.raises(ConflictError):
        store.versions.publish(project, b"late", "trained", {}, runs.id)
    for training in (waits, runs):
        assert [(e.kind, e.data["state"]) for e in store.trainings.events(project, training.id)] == [
            ("end", "cancelled")
        ]
    assert store.versions.all(project) == []


def test_the_training_of_a_dead_worker_is_claimed_by_another(store: Store, project: ProjectId):
    asked = store.trainings.request(project, {})
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
        store.versions.publish(project, b"late", "trained", {}, asked.id, worker="lost")
    with pytest.raises(ConflictError):
        store.trainings.add_event(asked.id, "lost", "progress", {})
    assert store.versions.publish(project, b"good", "trained", {}, asked.id, worker="next").number == 1
    assert store.trainings.add_event(asked.id, "next", "progress", {}).number == 3  # after "version"


@pytest.mark.parametrize("location", ["folder"], indirect=True)
def test_a_clock_that_jumps_loses_no_training(store: Store, project: ProjectId, monkeypatch):
    """SQLite has the clock of the machine; no lease is longer than an hour."""
    ahead = [timedelta(0)]
    monkeypatch.setattr(database, "now", lambda: now() + ahead[0])
    asked = store.trainings.request(project, {})
    assert store.trainings.claim("first", LEASE) is not None
    ahead[0] = -timedelta(minutes=30)  # a small correction takes it from nobody
    assert not store.trainings.has_claimable()
    ahead[0] = -timedelta(days=1)
    assert store.trainings.renew(asked.id, "first", LEASE)  # a worker that lives keeps it
    assert not store.trainings.has_claimable()
    ahead[0] = -timedelta(days=2)  # it died: its lease ends in a day, and would block the training until then
    assert store.trainings.claim("second", LEASE).id == asked.id
    assert not store.trainings.renew(asked.id, "first", LEASE)
    ahead[0] = timedelta(days=1)
    assert store.trainings.renew(asked.id, "second", LEASE)
    assert store.trainings.claim("third", LEASE) is None
    store.trainings.end(asked.id, "second", "done")
    assert store.trainings.get(project, asked.id).state == "done"


@pytest.mark.parametrize("location", ["folder"], indirect=True)
def test_a_clock_that_jumps_while_a_photo_is_written(store: Store, project: ProjectId, monkeypatch):
    """The photo is acknowledged and there, or refused and not there; what a sweep believes to be abandoned has no row."""
    only = store.classes.add(project, "cat")
    write = store.objects.folder.write

    def slow(name: str, content: bytes) -> None:
        write(name, content)
        monkeypatch.setattr(objects, "now", lambda: now() + timedelta(days=1))
        store.objects.sweep()

    monkeypatch.setattr(store.objects.folder, "write", slow)
    with pytest.raises(ConflictError, match="took too long"):
        store.photos.add(project, only.id, b"photo", b"small", "image/png")
    assert store.photos.all(project) == []
    monkeypatch.setattr(store.objects.folder, "write", write)
    photo, _ = store.photos.add(project, only.id, b"photo", b"small", "image/png")
    monkeypatch.setattr(objects, "now", lambda: now() - timedelta(days=1))
    store.objects.sweep()
    assert store.photos.content(project, photo.id) == b"photo"


def test_a_training_fails_after_three_dead_workers(store: Store, project: ProjectId):
    asked = store.trainings.request(project, {})
    for i in range(3):
        assert store.trainings.claim(f"w{i}", lease=0) is not None
        time.sleep(0.002)
    assert store.trainings.claim("w3", LEASE) is None
    assert store.trainings.get(project, asked.id).state == "failed"
    assert store.trainings.events(project, asked.id)[-1].kind == "end"


def test_a_released_training_waits_again(store: Store, project: ProjectId):
    asked = store.trainings.request(project, {})
    for i in range(5):  # a worker that stops is not counted as dead
        assert store.trainings.claim(f"w{i}", LEASE).id == asked.id
        assert store.trainings.release(asked.id, f"w{i}")
        assert not store.trainings.renew(asked.id, f"w{i}", LEASE)
        assert store.trainings.get(project, asked.id).state == "waiting"


def test_old_trainings_are_deleted(store: Store, project: ProjectId):
    bobs = store.projects.resolve(store.users.create("Bob")[0].id)
    kept = store.trainings.request(bobs, {})
    asked = []
    for _ in range(22):
        asked.append(store.trainings.request(project, {}).id)
        store.trainings.cancel(project, asked[-1])
    assert [t.id for t in store.trainings.all(project)] == asked[:1:-1]
    assert [t.id for t in store.trainings.all(bobs)] == [kept.id]
    with pytest.raises(NotFoundError):
        store.trainings.events(project, asked[0])


def test_deleting_a_user_does_not_affect_others(store: Store, ann: str, tmp_path: Path):
    bob, token = store.users.create("Bob")
    kept = {}
    for user in (ann, bob.id):
        project = store.projects.resolve(user)
        kept[user] = add(store, project, store.classes.add(project, "cat").id, b"photo of " + user.encode())
        store.versions.publish(project, b"update of " + user.encode(), "trained", {})
        store.trainings.request(project, {})
    store.users.delete(ann)
    with pytest.raises(NotFoundError):
        store.users.get(ann)
    with pytest.raises(NotFoundError):
        store.users.delete(ann)
    assert store.users.all() == [bob]
    assert store.users.by_token(token) == bob
    assert store.photos.content(project, kept[bob.id].id) == b"photo of " + bob.id.encode()
    assert store.versions.content(project, 1) == b"update of " + bob.id.encode()
    assert store.trainings.count_waiting() == 1
    assert len(files_of(tmp_path / "objects")) in (0, 3)
    assert not any(ann in str(path) for path in tmp_path.rglob("*"))


def test_a_store_that_is_opened_again_has_all_records(store: Store, project: ProjectId, location, opened):
    photo = add(store, project, store.classes.add(project, "cat").id)
    store.versions.publish(project, b"update", "trained", {"classes": {"cat": 1}})
    store.close()
    again = opened(location)
    assert again.photos.content(project, photo.id) == b"photo"
    assert again.versions.current(project).summary == {"classes": {"cat": 1}}
