"""What a user downloads has the names that the classes have now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from filmtransfer.heads import make_head
from filmtransfer.model import Update
from filmtransfer.model.support import Support
from filmtransfer.serve.present_names import present_content
from filmtransfer.serve.store import Store, StoreLocation
from tests.report.small_report import LABELS, features, update_of

NAMES = ["cup", "key", "pen", "pot"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(StoreLocation.of(tmp_path))
    yield store
    store.close()


@pytest.fixture
def update() -> Update:
    z = features(LABELS)
    photos = [f"{NAMES[c]}/{i}.jpg" for i, c in enumerate(LABELS)]
    support = Support(
        z, LABELS, np.ones(len(LABELS), bool), photos, [f"{i:032x}" for i in range(len(LABELS))]
    )
    return update_of(make_head("lda").configure(z, LABELS), NAMES, support=support)


def test_a_download_has_the_present_names(store: Store, update: Update):
    project = store.projects.resolve(store.users.create("ann")[0].id)
    ids = {name: store.classes.add(project, name).id for name in NAMES}
    stored = update.to_bytes()
    store.versions.publish(project, stored, "trained", {"class_ids": ids})
    store.versions.publish(project, stored, "uploaded", {})
    assert present_content(store, project, 1) == stored

    def rename(name: str, to: str) -> None:
        store.classes.rename(project, ids[name], to)

    for name, to in (
        ("cup", "?"),
        ("key", "cup"),
        ("cup", "key"),
        ("pen", "biro"),
    ):  # two exchange their names
        rename(name, to)
    renamed = Update.from_bytes(present_content(store, project, 1))
    assert renamed.classes == ["key", "cup", "biro", "pot"]
    assert [renamed.support.names[i] for i in (0, 8, 16, 24)] == [
        "key/0.jpg",
        "cup/8.jpg",
        "biro/16.jpg",
        "pot/24.jpg",
    ]
    assert renamed.edits == []
    np.testing.assert_array_equal(renamed.head_tensors["weight"], update.head_tensors["weight"])

    store.classes.delete(project, ids["pot"])
    assert Update.from_bytes(present_content(store, project, 1)).classes[3] == "pot"
    rename("pen", "pot")
    assert Update.from_bytes(present_content(store, project, 1)).classes[2:] == ["pot", "pot (deleted)"]
    assert present_content(store, project, 2) == stored, "what was uploaded does not belong to these classes"
