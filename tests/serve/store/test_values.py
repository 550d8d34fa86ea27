"""Names are text to display: they never become paths, SQL or markup."""

from __future__ import annotations

from pathlib import Path

import pytest

from filmtransfer.errors import InputError
from filmtransfer.serve.store import ConflictError, Store

from .conftest import files_of

VALID = (
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "/etc/passwd",
    "C:\\windows",
    "..",
    "'; DROP TABLE fit_users; --",
    "%s %(name)s {0} ${HOME}",
    "👩‍👩‍👧‍👦 family",
    "قطة سوداء",
    "می‌خواهم",
    "猫",
    "x" * 100,
    "a b",
)
INVALID = (
    "",
    "   ",
    "\t\n",
    "a\nb",
    "a\0b",
    "\x1b[31mred",
    "x" * 101,
    "right\u202eleft",
    "half \ud800",
    "a\u2028b",
)


def test_unusual_names_are_stored_unchanged(store: Store, tmp_path: Path):
    for name in VALID:
        user = store.users.create(name)[0]
        assert store.users.get(user.id).name == name
    project = store.projects.resolve(user.id)
    for name in VALID:
        assert store.projects.rename(user.id, project, name).name == name
        store.classes.add(project, name)
    assert tuple(row.name for row in store.classes.all(project)) == VALID
    for row in store.classes.all(project):
        photo, _ = store.photos.add(project, row.id, b"same", b"small", "image/png")
        assert store.photos.content(project, photo.id) == b"same"
    for path in files_of(tmp_path / "objects"):
        shard, owner, name = path.relative_to(tmp_path / "objects").parts
        assert (shard, owner) == (user.id[:2], user.id)
        assert name.isalnum()


def test_names_that_cannot_be_displayed_are_refused(store: Store):
    user = store.users.create("Ann")[0].id
    project = store.projects.resolve(user)
    row = store.classes.add(project, "cat")
    for name in INVALID:
        with pytest.raises(InputError) as caught:
            store.users.create(name)
        assert caught.value.message.isprintable()
        with pytest.raises(InputError):
            store.projects.create(user, name)
        with pytest.raises(InputError):
            store.classes.add(project, name)
        with pytest.raises(InputError):
            store.classes.rename(project, row.id, name)
    with pytest.raises(InputError):
        store.photos.add(project, row.id, b"x", b"y", "image/png\r\nSet-Cookie: a=b")


def test_names_are_compared_in_normal_form(store: Store):
    project = store.projects.resolve(store.users.create("Ann")[0].id)
    assert store.classes.add(project, "cafe\u0301").name == "café"
    with pytest.raises(ConflictError):
        store.classes.add(project, " caf\u00e9 ")
