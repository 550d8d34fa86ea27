"""Uploaded update files: their class names, the quota, and how much lists say of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from filmtransfer.errors import InputError
from filmtransfer.model import Update
from filmtransfer.serve.store import ProjectId
from filmtransfer.serve.store.versions import listed_columns

FILE = {"Content-Type": "application/octet-stream"}


@pytest.fixture(scope="module")
def anna(service):
    return service.client("anna")


@pytest.mark.parametrize(
    ("names", "status", "reason"),
    [
        (["x" * 101, "b", "c"], 400, "101 characters"),
        (["a\x1b[2J", "b", "c"], 400, "cannot be displayed"),
        (["same", "same ", "c"], 400, "same name"),
    ],
)
def test_names_of_uploaded_classes_follow_the_rules_of_all_names(anna, update_file, names, status, reason):
    content = replace(Update.load(update_file), classes=names).to_bytes()
    refused = anna.post("/api/versions", content=content, headers=FILE)
    assert refused.status_code == status
    assert reason in refused.json()["error"]["message"]


def test_an_upload_above_the_quota_is_refused_before_its_head_is_restored(
    anna, service, update_file, monkeypatch
):
    user = anna.get("/api/me").json()["id"]
    before = service.store.users.get(user).quota
    monkeypatch.setattr(Update, "restore_head", lambda *_: pytest.fail("the head was restored"))
    try:
        for quota, unit in ((replace(before, classes=2), "classes"), (replace(before, bytes=1000), "bytes")):
            service.store.users.set_quota(user, quota)
            refused = anna.post("/api/versions", content=update_file.read_bytes(), headers=FILE)
            assert refused.status_code == 507
            assert refused.json()["error"]["message"].startswith(f"The number of {unit} would be")
    finally:
        service.store.users.set_quota(user, before)


def test_lists_stay_small_whatever_earlier_releases_have_stored(anna, service, monkeypatch):
    project = ProjectId(anna.get("/api/me").json()["project"])
    long = {"classes": {f"{i}" * 1000: 1 for i in range(10)}, "estimate": None}
    stored = service.store.versions.publish(project, b"update", "uploaded", long)
    assert len(anna.get("/api/versions").content) > 10_000
    monkeypatch.setattr("filmtransfer.serve.store.versions.MAX_UPLOADED_SUMMARY", 5000)
    with pytest.raises(InputError, match="too long"):
        service.store.versions.publish(project, b"update", "uploaded", long)
    monkeypatch.setattr("filmtransfer.serve.store.versions.LISTED", listed_columns(5000))
    for path in ("/api/versions", "/api/me"):
        answer = anna.get(path)
        assert answer.status_code == 200
        assert len(answer.content) < 10_000
    assert service.store.versions.get(project, stored.number).bytes == 6
