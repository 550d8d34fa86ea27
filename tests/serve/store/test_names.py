"""Names are text to show: whatever they look like, they never become paths, SQL or markup."""

from __future__ import annotations

from pathlib import Path

import pytest

from filmtransfer.errors import InputError
from filmtransfer.serve.store import ConflictError, Store

from .conftest import files_of

GOOD = (
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
BAD = (
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


def test_odd_names_come_back_as_they_went_in(store: Store, tmp_path: Path):
    for name in GOOD:
        user = store.users.create(name)[0]
        assert store.users.get(user.id).name == name
    for name in GOOD:
        store.classes.add(user.id, name)
    assert tuple(row.name for row in store.classes.all(user.id)) == GOOD
    for row in store.classes.all(user.id):
        photo = store.photos.add(user.id, row.id, b"same", b"small", "image/png")
        assert store.photos.content(user.id, photo.id) == b"same"
    for path in files_of(tmp_path / "objects"):
        shard, owner, name = path.relative_to(tmp_path / "objects").parts
        assert (shard, owner) == (user.id[:2], user.id)
        assert name.isalnum()


def test_names_that_cannot_be_shown_are_refused(store: Store):
    user = store.users.create("Ann")[0].id
    row = store.classes.add(user, "cat")
    for name in BAD:
        with pytest.raises(InputError) as caught:
            store.users.create(name)
        assert caught.value.message.isprintable()
        with pytest.raises(InputError):
            store.classes.add(user, name)
        with pytest.raises(InputError):
            store.classes.rename(user, row.id, name)
    with pytest.raises(InputError):
        store.photos.add(user, row.id, b"x", b"y", "image/png\r\nSet-Cookie: a=b")


def test_two_spellings_of_one_name_are_one(store: Store):
    user = store.users.create("Ann")[0].id
    assert store.classes.add(user, "cafe\u0301").name == "café"
    with pytest.raises(ConflictError):
        store.classes.add(user, " caf\u00e9 ")
