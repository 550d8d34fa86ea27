"""Projects of users: separate records, common quotas, and what remains after a deletion."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from filmtransfer.errors import InputError
from filmtransfer.serve.settings import LEASE, MAX_PROJECTS
from filmtransfer.serve.store import (
    ConflictError,
    NotFoundError,
    ProjectId,
    Quota,
    QuotaError,
    Store,
    StoreError,
    Usage,
)

from .conftest import files_of


@pytest.fixture
def ann(store: Store) -> str:
    return store.users.create("Ann")[0].id


def add(store: Store, project: ProjectId, content: bytes) -> None:
    one = store.classes.add(project, f"class {content!r}")
    store.photos.add(project, one.id, content, b"small", "image/png")


def test_projects_from_creation_to_deletion(store: Store, ann: str):
    (first,) = store.projects.all(ann)
    assert (first.name, first.classes, first.photos, first.current) == ("My classifier", 0, 0, None)
    second = store.projects.create(ann, " birds ")
    assert second.name == "birds"
    assert store.projects.all(ann) == [first, second]
    assert store.projects.resolve(ann) == first.id
    assert store.projects.resolve(ann, second.id) == second.id
    assert store.projects.rename(ann, second.id, "Birds").name == "Birds"
    add(store, second.id, b"one")
    store.versions.publish(second.id, b"update", "trained", {})
    listed = store.projects.all(ann)[1]
    assert (listed.classes, listed.photos, listed.current) == (1, 1, 1)
    store.projects.delete(ann, first.id)
    assert store.projects.all(ann) == [listed]
    assert store.projects.resolve(ann) == second.id
    with pytest.raises(InputError):
        store.projects.create(ann, " ")
    with pytest.raises(InputError):
        store.projects.rename(ann, second.id, "a\nb")


def test_a_project_of_another_user_does_not_exist(store: Store, ann: str):
    bob = store.users.create("Bob")[0].id
    hers = store.projects.resolve(ann)
    for user, id in (
        (bob, hers),
        ("0" * 16, hers),
        ("\0", hers),
        (ann, "0" * 16),
        (ann, "\0"),
        (ann, "' OR 1=1"),
    ):
        for attempt in (
            lambda: store.projects.resolve(user, id),  # noqa: B023
            lambda: store.projects.rename(user, id, "mine"),  # noqa: B023
            lambda: store.projects.delete(user, id),  # noqa: B023
        ):
            with pytest.raises(NotFoundError):
                attempt()
    for ask in (store.projects.resolve, store.projects.all, store.users.start_over):
        with pytest.raises(NotFoundError):
            ask("0" * 16)
    with pytest.raises(NotFoundError):
        store.projects.create("0" * 16, "lost")
    assert [project.name for project in store.projects.all(ann)] == ["My classifier"]


def test_projects_have_their_own_records_and_numbers(store: Store, ann: str):
    first, second = store.projects.resolve(ann), store.projects.create(ann, "second").id
    for project in (first, second):
        store.classes.add(project, "cat")
        assert store.versions.publish(project, b"update of " + project.encode(), "trained", {}).number == 1
    store.versions.publish(first, b"another", "trained", {})
    assert [version.number for version in store.versions.all(first)] == [2, 1]
    assert store.versions.current(second).number == 1
    assert store.versions.content(second, 1) == b"update of " + second.encode()


def test_quotas_count_all_projects(store: Store, ann: str):
    first, second = store.projects.resolve(ann), store.projects.create(ann, "second").id
    store.users.set_quota(ann, Quota(classes=3, photos=2, bytes=10))
    add(store, first, b"1234")
    add(store, second, b"56")
    assert store.users.usage(ann) == Usage(2, 2, 6, 0)
    with pytest.raises(QuotaError, match="photos"):
        add(store, second, b"7")
    with pytest.raises(QuotaError, match="classes"):
        store.classes.add(first, "one too many")
    with pytest.raises(QuotaError, match="bytes"):
        store.versions.publish(first, b"12345", "trained", {})


def test_quotas_hold_for_concurrent_writers_of_several_projects(store: Store, ann: str):
    store.users.set_quota(ann, Quota(photos=5))
    projects = [store.projects.resolve(ann), store.projects.create(ann, "second").id]
    classes = [store.classes.add(project, "cat").id for project in projects]
    start = threading.Barrier(8)

    def one(i: int) -> bool:
        start.wait()
        try:
            store.photos.add(projects[i % 2], classes[i % 2], b"%d" % i, b"small", "image/png")
        except QuotaError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(one, range(8))) == 5


def test_a_new_version_never_replaces_the_current_one_of_another_project(store: Store, ann: str):
    store.users.set_quota(ann, Quota(versions=3))
    first, second = store.projects.resolve(ann), store.projects.create(ann, "second").id
    for i in range(3):
        store.versions.publish(first, b"%d" % i, "trained", {})
    for i in range(3):
        store.versions.publish(second, b"%d" % i, "trained", {})
    assert [version.number for version in store.versions.all(first)] == [3]
    assert [version.number for version in store.versions.all(second)] == [3, 2]
    store.users.set_quota(ann, Quota(versions=1))
    with pytest.raises(QuotaError, match="quota is one version, and current and uploaded versions of other"):
        store.versions.publish(second, b"4", "trained", {})
    with pytest.raises(QuotaError, match="quota is one version"):
        store.trainings.request(second, {})  # now, not when it has been trained
    assert [version.number for version in store.versions.all(second)] == [3, 2]
    store.users.set_quota(ann, Quota(versions=2))
    store.versions.publish(second, b"4", "trained", {})
    assert [version.number for version in store.versions.all(second)] == [4]
    assert store.versions.current(first).number == 3


def test_versions_that_were_uploaded_to_another_project_are_kept(store: Store, ann: str):
    store.users.set_quota(ann, Quota(versions=4))
    first, second = store.projects.resolve(ann), store.projects.create(ann, "second").id
    for i in range(3):
        store.versions.publish(first, b"%d" % i, "uploaded", {})
    for i in range(5):
        store.versions.publish(second, b"%d" % i, "trained", {})
    assert [version.number for version in store.versions.all(first)] == [3, 2, 1]
    assert [version.number for version in store.versions.all(second)] == [5]


def test_the_number_of_projects_is_limited(store: Store, ann: str):
    for i in range(MAX_PROJECTS - 1):
        store.projects.create(ann, f"{i}")
    with pytest.raises(QuotaError, match=f"{MAX_PROJECTS} projects"):
        store.projects.create(ann, "one too many")
    assert len(store.projects.all(ann)) == MAX_PROJECTS


def test_a_user_has_one_active_training_in_all_projects(store: Store, ann: str):
    first, second = store.projects.resolve(ann), store.projects.create(ann, "second").id
    bobs = store.projects.resolve(store.users.create("Bob")[0].id)
    asked = store.trainings.request(first, {})
    with pytest.raises(ConflictError, match="A training is waiting or running already"):
        store.trainings.request(first, {})
    with pytest.raises(ConflictError, match="Another project of yours, 'My classifier'"):
        store.trainings.request(second, {})
    assert store.trainings.request(bobs, {}).state == "waiting"
    store.trainings.cancel(first, asked.id)
    assert store.trainings.request(second, {}).project == second


def test_concurrent_requests_start_one_training(store: Store, ann: str):
    projects = [store.projects.resolve(ann), *(store.projects.create(ann, f"{i}").id for i in range(5))]
    start = threading.Barrier(len(projects))

    def request(project: ProjectId) -> bool:
        start.wait()
        try:
            store.trainings.request(project, {})
        except ConflictError:
            return False
        return True

    with ThreadPoolExecutor(len(projects)) as pool:
        assert sum(pool.map(request, projects)) == 1


def test_deleting_a_project_deletes_all_that_is_in_it(store: Store, ann: str, tmp_path: Path):
    first, second = store.projects.resolve(ann), store.projects.create(ann, "second").id
    for project in (first, second):
        add(store, project, b"photo of " + project.encode())
        store.versions.publish(project, b"update", "trained", {})
    training = store.trainings.request(second, {})
    store.trainings.claim("worker", LEASE)
    store.projects.delete(ann, second)
    for ask in (store.classes.all, store.photos.all, store.versions.all, store.trainings.all):
        with pytest.raises(NotFoundError):
            ask(second)
    with pytest.raises(ConflictError):
        store.trainings.add_event(training.id, "worker", "progress", {})
    assert store.trainings.request(first, {}).state == "waiting"
    assert store.users.usage(ann) == Usage(1, 1, len(b"photo of ") + 16 + len(b"update"), 1)
    assert len(files_of(tmp_path / "objects")) in (0, 3)
    store.projects.delete(ann, first)
    (fresh,) = store.projects.all(ann)
    assert (fresh.name, fresh.photos) == ("My classifier", 0)
    assert fresh.id != first
    assert files_of(tmp_path / "objects") == []


def test_starting_over_keeps_the_user(store: Store, tmp_path: Path):
    ann, token = store.users.create("Ann", Quota(photos=7))
    bob = store.users.create("Bob")[0].id
    for user in (ann.id, bob):
        for project in (store.projects.resolve(user), store.projects.create(user, "second").id):
            add(store, project, b"photo of " + project.encode())
            store.versions.publish(project, b"update", "trained", {})
    store.trainings.request(store.projects.resolve(ann.id), {})
    store.users.start_over(ann.id)
    assert store.users.by_token(token) == ann
    (fresh,) = store.projects.all(ann.id)
    assert (fresh.name, fresh.classes, fresh.photos, fresh.current) == ("My classifier", 0, 0, None)
    assert store.trainings.all(fresh.id) == []
    assert store.trainings.count_waiting() == 0
    assert store.users.usage(ann.id) == Usage(0, 0, 0, 0)
    assert [project.photos for project in store.projects.all(bob)] == [1, 1]
    assert len(files_of(tmp_path / "objects")) in (0, 6)


@pytest.mark.parametrize("change", ["nothing", "name", "class", "training", "version", "project"])
def test_starting_over_with_nothing_does_not_rewrite_the_file(
    store: Store, ann: str, change: str, monkeypatch: pytest.MonkeyPatch
):
    project = store.projects.resolve(ann)
    if change == "name":
        store.projects.rename(ann, project, "cups")
    elif change == "class":
        store.classes.add(project, "cup")
    elif change == "training":
        store.trainings.request(project, {})
    elif change == "version":
        store.versions.publish(project, b"0", "trained", {})
    elif change == "project":
        store.projects.create(ann, "second")
    scrubbed: list[str] = []
    monkeypatch.setattr(store.database, "scrub", lambda: scrubbed.append(change))
    store.users.start_over(ann)
    assert scrubbed == ([] if change == "nothing" else [change])
    (fresh,) = store.projects.all(ann)
    assert (fresh.id == project) is (change == "nothing")
    assert (fresh.name, store.trainings.all(fresh.id)) == ("My classifier", [])


def test_what_is_written_while_everything_is_deleted_is_refused_or_kept(
    store: Store, ann: str, tmp_path: Path
):
    """A photo that was acknowledged after the deletion is there, and one that was refused has left nothing."""
    stop = threading.Event()

    def write() -> dict[ProjectId, int]:
        added: dict[ProjectId, int] = {}
        i = 0
        while not stop.is_set():
            i += 1
            try:
                project = store.projects.resolve(ann)
                add(store, project, b"%d" % i)
            except StoreError:
                continue
            added[project] = added.get(project, 0) + 1
        return added

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        for _ in range(5):
            store.users.start_over(ann)
        stop.set()
        added = writing.result()
    (last,) = store.projects.all(ann)
    assert last.photos == added.get(last.id, 0)
    assert all(store.photos.content(last.id, photo.id) for photo in store.photos.all(last.id))
    assert len(files_of(tmp_path / "objects")) in (0, 2 * last.photos)
