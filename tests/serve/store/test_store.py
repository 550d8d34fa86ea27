"""What the store promises, in each of its three shapes."""

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
from filmtransfer.serve.store import (
    ClassRow,
    ConflictError,
    NotFoundError,
    Quota,
    QuotaError,
    Store,
    Used,
)
from filmtransfer.serve.store.migrate import TABLE
from filmtransfer.serve.store.schema import metadata

from .conftest import files_of


@pytest.fixture
def ann(store: Store) -> str:
    return store.create_user("Ann")[0].id


def add(store: Store, user: str, class_id: str, content: bytes = b"photo"):
    return store.add_photo(user, class_id, content, b"small " + content, "image/jpeg")


def test_users_and_tokens(store: Store):
    ann, token = store.create_user(" Ann ")
    bob, other = store.create_user("Bob", Quota(classes=2))
    assert ann.name == "Ann"
    assert ann.created.tzinfo is UTC
    assert store.users() == [ann, bob]
    assert store.users(limit=1) == [ann]
    assert store.user(bob.id) == bob
    assert bob.quota.classes == 2
    assert store.user_of(token) == ann
    assert store.user_of(other) == bob
    assert store.user_of("nonsense \udc80\0") is None
    new = store.new_token(ann.id)
    assert store.user_of(token) is None
    assert store.user_of(new) == ann
    assert store.set_quota(ann.id, Quota(photos=7)).quota.photos == 7
    assert store.user(ann.id).quota.photos == 7
    for bad in (Quota(classes=-1), Quota(versions=0), Quota(bytes=2**63)):
        with pytest.raises(InputError):
            store.set_quota(ann.id, bad)
    store.ping()


def test_classes(store: Store, ann: str):
    cat, dog = store.add_class(ann, "cat"), store.add_class(ann, " dog ")
    assert store.classes(ann) == [cat, dog]
    assert dog.name == "dog"
    with pytest.raises(ConflictError):
        store.add_class(ann, "cat")
    with pytest.raises(ConflictError):
        store.rename_class(ann, dog.id, "cat")
    add(store, ann, dog.id)
    assert store.rename_class(ann, dog.id, "wolf") == ClassRow(dog.id, "wolf", 1)
    store.remove_class(ann, dog.id)
    assert store.classes(ann) == [cat]
    assert store.photos(ann) == []


def test_photos(store: Store, ann: str, tmp_path: Path):
    cat, dog = store.add_class(ann, "cat"), store.add_class(ann, "dog")
    first, second = add(store, ann, cat.id, b"one"), add(store, ann, cat.id, b"two")
    assert add(store, ann, cat.id, b"one") == first
    assert store.photos(ann) == store.photos(ann, cat.id) == [first, second]
    assert store.photos(ann, dog.id) == []
    assert first.digest == hashlib.sha256(b"one").hexdigest()
    assert (first.bytes, first.media_type) == (3, "image/jpeg")
    assert store.photo_content(ann, second.id) == b"two"
    assert store.thumbnail(ann, second.id) == b"small two"
    moved = store.move_photo(ann, first.id, dog.id)
    assert (moved.id, moved.class_id) == (first.id, dog.id)
    again = add(store, ann, cat.id, b"one")
    with pytest.raises(ConflictError):
        store.move_photo(ann, again.id, dog.id)
    assert store.used(ann) == Used(2, 3, 9, 0)
    for photo in store.photos(ann):
        store.remove_photo(ann, photo.id)
    assert store.used(ann) == Used(2, 0, 0, 0)
    assert files_of(tmp_path / "objects") == []


def test_versions_publish_and_roll_back(store: Store, ann: str, tmp_path: Path):
    assert store.current(ann) is None
    store.set_quota(ann, Quota(versions=3))
    for i in (1, 2, 3):
        made = store.publish(ann, b"update %d" % i, "trained", {"stage": "first", "i": i})
        assert (made.number, made.current) == (i, True)
    assert store.current(ann) == made
    assert store.make_current(ann, 1) == store.version(ann, 1) == store.current(ann)
    assert [v.current for v in store.versions(ann)] == [False, False, True]
    with pytest.raises(ConflictError):
        store.delete_version(ann, 1)
    store.delete_version(ann, 3)
    assert store.publish(ann, b"update 4", "uploaded", {}).number == 4  # a number is never given twice
    store.make_current(ann, 2)
    store.publish(ann, b"update 5", "trained", {})
    assert [v.number for v in store.versions(ann)] == [5, 4, 2]  # 1 went: the oldest that was not current
    assert store.download(ann, 2) == b"update 2"
    assert store.version(ann, 2).summary == {"stage": "first", "i": 2}
    for gone in (1, 3, 0, -1, 2**40):
        with pytest.raises(NotFoundError):
            store.download(ann, gone)
    if (tmp_path / "objects").exists():
        assert len(files_of(tmp_path / "objects")) == 3
    store.set_quota(ann, Quota(versions=1))
    assert store.publish(ann, b"update 6", "trained", {}).number == 6
    assert [v.number for v in store.versions(ann)] == [6]
    with pytest.raises(InputError):
        store.publish(ann, b"x", "trained", {"accuracy": float("nan")})


def test_quotas_and_nothing_is_left_of_a_refusal(store: Store, ann: str, tmp_path: Path):
    store.set_quota(ann, Quota(classes=1, photos=2, bytes=10, versions=2))
    cat = store.add_class(ann, "cat")
    with pytest.raises(QuotaError):
        store.add_class(ann, "dog")
    add(store, ann, cat.id, b"1234")
    with pytest.raises(QuotaError, match="bytes"):
        add(store, ann, cat.id, b"1234567")
    add(store, ann, cat.id, b"5")
    with pytest.raises(QuotaError, match="photos"):
        add(store, ann, cat.id, b"6")
    with pytest.raises(QuotaError):
        store.publish(ann, b"123456", "trained", {})
    assert store.used(ann) == Used(1, 2, 5, 0)
    assert len(files_of(tmp_path / "objects")) in (0, 4)


def test_quotas_hold_when_many_add_at_once(store: Store, ann: str, tmp_path: Path):
    store.set_quota(ann, Quota(photos=5))
    cat = store.add_class(ann, "cat")
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
    assert store.used(ann).photos == 5
    assert len(files_of(tmp_path / "objects")) in (0, 10)


def test_the_same_photo_from_many_threads_is_one(store: Store, ann: str, tmp_path: Path):
    cat = store.add_class(ann, "cat")
    with ThreadPoolExecutor(6) as pool:
        made = set(pool.map(lambda _: add(store, ann, cat.id, b"same").id, range(6)))
    assert made == {photo.id for photo in store.photos(ann)}
    assert len(made) == 1
    assert len(files_of(tmp_path / "objects")) in (0, 2)


def test_versions_published_at_once_have_numbers_of_their_own(store: Store, ann: str):
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda i: store.publish(ann, b"%d" % i, "trained", {"i": i}), range(12)))
    assert sorted(v.number for v in made) == list(range(1, 13))
    assert [v.number for v in store.versions(ann) if v.current] == [12]
    for version in made:
        assert store.download(ann, version.number) == b"%d" % version.summary["i"]


def test_another_users_things_do_not_exist(store: Store, ann: str):
    bob = store.create_user("Bob")[0].id
    cat = store.add_class(ann, "cat")
    photo = add(store, ann, cat.id)
    store.publish(ann, b"update", "trained", {})
    training = store.ask_training(ann, {})
    tries = (
        lambda user, x: store.rename_class(user, cat.id + x, "dog"),
        lambda user, x: store.remove_class(user, cat.id + x),
        lambda user, x: add(store, user, cat.id + x),
        lambda user, x: store.photos(user, cat.id + x),
        lambda user, x: store.photo(user, photo.id + x),
        lambda user, x: store.photo_content(user, photo.id + x),
        lambda user, x: store.thumbnail(user, photo.id + x),
        lambda user, x: store.move_photo(user, photo.id + x, cat.id),
        lambda user, x: store.remove_photo(user, photo.id + x),
        lambda user, x: store.version(user, 1 + len(x)),
        lambda user, x: store.download(user, 1 + len(x)),
        lambda user, x: store.make_current(user, 1 + len(x)),
        lambda user, x: store.delete_version(user, 1 + len(x)),
        lambda user, x: store.training(user, training.id + x),
        lambda user, x: store.events(user, training.id + x),
        lambda user, x: store.cancel_training(user, training.id + x),
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
        store.move_photo(bob, photo.id, store.add_class(bob, "x").id)
    with pytest.raises(NotFoundError):
        store.publish(bob, b"update", "trained", {}, training.id) if store.take_training("w") else None
    for ask in (store.user, store.used, store.classes, store.photos, store.versions, store.current):
        with pytest.raises(NotFoundError):
            ask("0" * 16)
    assert store.photo_content(ann, photo.id) == b"photo"


def test_trainings_from_asking_to_the_end(store: Store, ann: str):
    bob = store.create_user("Bob")[0].id
    asked = store.ask_training(ann, {"steps": 5})
    assert (asked.state, asked.options, asked.user) == ("waiting", {"steps": 5}, ann)
    with pytest.raises(ConflictError):
        store.ask_training(ann, {})
    second = store.ask_training(bob, {})
    assert store.waiting() == 2
    taken = store.take_training("w1")
    assert taken is not None
    assert (taken.id, taken.state, taken.worker) == (asked.id, "running", "w1")
    assert taken.started is not None
    assert store.take_training("w2").id == second.id
    assert store.take_training("w3") is None
    assert store.waiting() == 0
    assert store.keep_training(asked.id, "w1")
    assert not store.keep_training(asked.id, "w2")
    assert store.tell(asked.id, "w1", "progress", {"step": 1}).number == 1
    with pytest.raises(ConflictError):
        store.tell(asked.id, "w2", "progress", {})
    assert store.publish(ann, b"update", "trained", {}, asked.id).number == 1
    store.end_training(asked.id, "w1", "done", "fine \0\udc80")
    kinds = [(e.number, e.kind) for e in store.events(ann, asked.id)]
    assert kinds == [(1, "progress"), (2, "end")]
    assert [e.data for e in store.events(ann, asked.id, after=1)] == [{"state": "done", "message": "fine ?"}]
    ended = store.training(ann, asked.id)
    assert (ended.state, ended.message) == ("done", "fine ?")
    assert ended.ended is not None
    assert store.cancel_training(ann, asked.id) == ended
    for late in (
        lambda: store.tell(asked.id, "w1", "progress", {}),
        lambda: store.end_training(asked.id, "w1", "done"),
        lambda: store.publish(ann, b"late", "trained", {}, asked.id),
    ):
        with pytest.raises(ConflictError):
            late()
    again = store.ask_training(ann, {})
    assert [t.id for t in store.trainings(ann)] == [again.id, asked.id]


def test_cancelled_trainings_stop(store: Store, ann: str):
    waits = store.ask_training(ann, {})
    assert store.cancel_training(ann, waits.id).state == "cancelled"
    assert store.take_training("w") is None
    runs = store.ask_training(ann, {})
    store.take_training("w")
    assert store.cancel_training(ann, runs.id).state == "cancelled"
    assert not store.keep_training(runs.id, "w")
    with pytest.raises(ConflictError):
        store.publish(ann, b"late", "trained", {}, runs.id)
    for training in (waits, runs):
        assert [(e.kind, e.data["state"]) for e in store.events(ann, training.id)] == [("end", "cancelled")]
    assert store.versions(ann) == []


def test_a_lost_workers_training_goes_to_another(store: Store, ann: str):
    asked = store.ask_training(ann, {})
    store.take_training("lost", lease=0.01)
    store.tell(asked.id, "lost", "progress", {"step": 1})
    time.sleep(0.03)
    taken = store.take_training("next", lease=60)
    assert taken is not None
    assert (taken.id, taken.worker) == (asked.id, "next")
    assert store.take_training("third") is None
    assert not store.keep_training(asked.id, "lost")
    with pytest.raises(ConflictError):
        store.publish(ann, b"late", "trained", {}, asked.id, worker="lost")
    with pytest.raises(ConflictError):
        store.tell(asked.id, "lost", "progress", {})
    assert store.publish(ann, b"good", "trained", {}, asked.id, worker="next").number == 1
    assert store.tell(asked.id, "next", "progress", {}).number == 2


def test_a_training_that_kills_its_workers_fails(store: Store, ann: str):
    asked = store.ask_training(ann, {})
    for i in range(3):
        assert store.take_training(f"w{i}", lease=0) is not None
        time.sleep(0.002)
    assert store.take_training("w3") is None
    assert store.training(ann, asked.id).state == "failed"
    assert store.events(ann, asked.id)[-1].kind == "end"


def test_a_training_that_is_given_back_waits_again(store: Store, ann: str):
    asked = store.ask_training(ann, {})
    for i in range(5):  # a worker that ends in good health did not die of it
        assert store.take_training(f"w{i}").id == asked.id
        assert store.keep_training(asked.id, f"w{i}", 0)
        assert not store.keep_training(asked.id, f"w{i}")
        assert store.training(ann, asked.id).state == "waiting"


def test_old_trainings_are_forgotten(store: Store, ann: str):
    bob = store.create_user("Bob")[0].id
    kept = store.ask_training(bob, {})
    asked = []
    for _ in range(22):
        asked.append(store.ask_training(ann, {}).id)
        store.cancel_training(ann, asked[-1])
    assert [t.id for t in store.trainings(ann)] == asked[:1:-1]
    assert [t.id for t in store.trainings(bob)] == [kept.id]
    with pytest.raises(NotFoundError):
        store.events(ann, asked[0])


def test_deleting_a_user_leaves_others_alone(store: Store, ann: str, tmp_path: Path):
    bob, token = store.create_user("Bob")
    kept = {}
    for user in (ann, bob.id):
        cat = store.add_class(user, "cat")
        kept[user] = add(store, user, cat.id, b"photo of " + user.encode())
        store.publish(user, b"update of " + user.encode(), "trained", {})
        store.ask_training(user, {})
    store.delete_user(ann)
    with pytest.raises(NotFoundError):
        store.user(ann)
    with pytest.raises(NotFoundError):
        store.delete_user(ann)
    assert store.users() == [bob]
    assert store.user_of(token) == bob
    assert store.photo_content(bob.id, kept[bob.id].id) == b"photo of " + bob.id.encode()
    assert store.download(bob.id, 1) == b"update of " + bob.id.encode()
    assert store.waiting() == 1
    assert len(files_of(tmp_path / "objects")) in (0, 3)
    assert not any(ann in str(path) for path in tmp_path.rglob("*"))


def test_the_migrations_make_the_tables_of_the_schema(store: Store):
    with store._database.read() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": TABLE, "compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_opened_again_everything_is_there(store: Store, ann: str, place, opened):
    photo = add(store, ann, store.add_class(ann, "cat").id)
    store.publish(ann, b"update", "trained", {"classes": {"cat": 1}})
    store.close()
    again = opened(place)
    assert again.photo_content(ann, photo.id) == b"photo"
    assert again.current(ann).summary == {"classes": {"cat": 1}}
