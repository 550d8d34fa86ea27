"""Several projects of a user over HTTP: their records, a sample, starting over, and what a worker trains."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from filmtransfer.data.sample import enlarge_drawing, sample_drawings
from filmtransfer.serve.store import Quota
from filmtransfer.serve.worker import Worker
from tests.serve.conftest import add_two_classes, encoded
from tests.serve.updates import backbone

JPEG = {"Content-Type": "image/jpeg"}
FILE = {"Content-Type": "application/octet-stream"}


@pytest.fixture
def dora(service):
    """Return the client of a user who exists for one test only."""
    user = service.add_user("dora")
    yield service.client("dora")
    service.store.users.delete(user)


def projects_of(client):
    return client.get("/api/projects").json()["projects"]


def add_photo(client, seed: int = 0, **params) -> str:
    row = client.post("/api/classes", json={"name": f"class {seed}"}, params=params).json()["id"]
    sent = client.post(
        f"/api/classes/{row}/photos", content=encoded(0, seed), headers=JPEG, params=params
    ).json()
    return str(sent["id"])


def test_projects_from_creation_to_deletion(dora):
    (first,) = projects_of(dora)
    assert {name: first[name] for name in first if name not in ("id", "created")} == {
        "name": "My classifier", "classes": 0, "photos": 0, "current": None,
    }  # fmt: skip
    made = dora.post("/api/projects", json={"name": "Birds"})
    assert made.status_code == 201
    second = made.json()["id"]
    assert projects_of(dora) == [first, made.json()]
    renamed = dora.patch(f"/api/projects/{second}", json={"name": "Fish"})
    assert renamed.json() == made.json() | {"name": "Fish"}
    assert dora.get("/api/me").json()["project"] == first["id"]
    assert dora.get("/api/me", params={"project": second}).json()["project"] == second
    for wrong in ({}, {"name": ""}, {"name": "a\nb"}, {"name": "x", "more": 1}):
        assert dora.post("/api/projects", json=wrong).status_code in (400, 422)
    for id in (first["id"], second):
        assert dora.delete(f"/api/projects/{id}").status_code == 204
        assert dora.delete(f"/api/projects/{id}").status_code == 404
    (fresh,) = projects_of(dora)
    assert fresh["name"] == "My classifier"
    assert fresh["id"] not in (first["id"], second)


def test_a_project_has_its_own_records(dora, update_file):
    second = dora.post("/api/projects", json={"name": "second"}).json()["id"]
    here, there = {"project": second}, {}
    photo = add_photo(dora, 1, **here)
    add_photo(dora, 1, **there)
    sent = dora.post("/api/versions", content=update_file.read_bytes(), headers=FILE, params=here)
    assert sent.json()["number"] == 1
    assert dora.get(f"/api/photos/{photo}", params=here).status_code == 200
    assert dora.get(f"/api/photos/{photo}").status_code == 404
    assert dora.get("/api/versions").json() == {"versions": []}
    answer = dora.post("/api/predictions", content=encoded(0, 5), headers=JPEG, params=here)
    assert answer.json()["probabilities"][0]["class"] == "disc"
    assert dora.post("/api/predictions", content=encoded(0, 5), headers=JPEG).status_code == 409
    assert [(one["classes"], one["photos"], one["current"]) for one in projects_of(dora)] == [
        (1, 1, None),
        (1, 1, 1),
    ]
    assert dora.get("/api/me").json()["used"]["photos"] == 2, "the quota is that of all projects"
    for params in (here, there):
        add_two_classes(dora, **params)
    training = dora.post("/api/trainings", json={}, params=here).json()
    assert dora.get("/api/me").json()["training"] is None
    assert dora.get("/api/me", params=here).json()["training"] == training
    refused = dora.post("/api/trainings", json={})
    assert refused.status_code == 409
    assert "'second'" in refused.json()["error"]["message"]


def test_deleted_classifiers_leave_the_memory(service, dora, update_file):
    """A deleted project, and starting over, empty the cache, and a number is not answered by an older classifier."""
    cache = service.app.state.service.cache
    second = dora.post("/api/projects", json={"name": "second"}).json()["id"]
    for params in ({}, {"project": second}):
        dora.post("/api/versions", content=update_file.read_bytes(), headers=FILE, params=params)
        dora.post("/api/predictions", content=encoded(0, 5), headers=JPEG, params=params).raise_for_status()
    cached = len(cache)
    dora.delete(f"/api/projects/{second}").raise_for_status()
    assert len(cache) == cached - 1
    dora.delete("/api/me/data").raise_for_status()
    assert len(cache) == cached - 2
    assert dora.post("/api/predictions", content=encoded(0, 5), headers=JPEG).status_code == 409


def test_starting_over_keeps_the_account(service, dora):
    me = dora.get("/api/me").json()
    service.store.users.set_quota(me["id"], Quota(photos=77))
    add_photo(dora)
    second = dora.post("/api/projects", json={"name": "second"}).json()["id"]
    add_two_classes(dora, project=second)
    dora.post("/api/trainings", json={}, params={"project": second}).raise_for_status()
    assert dora.delete("/api/me/data").status_code == 204
    after = dora.get("/api/me").json()
    assert (after["id"], after["name"], after["quota"]["photos"]) == (me["id"], "dora", 77)
    assert after["used"] == {"classes": 0, "photos": 0, "bytes": 0, "versions": 0}
    assert after["project"] not in (me["project"], second)
    assert [one["id"] for one in projects_of(dora)] == [after["project"]]
    add_two_classes(dora)
    assert dora.post("/api/trainings", json={}).status_code == 202, "the training was deleted too"


def test_a_deleted_account_is_explained(service):
    service.add_user("ella")
    ella = service.client("ella")
    assert ella.delete("/api/me").status_code == 204
    for answer in (ella.get("/api/me"), ella.delete("/api/me/data")):
        assert answer.status_code == 401
        assert "the account has been deleted" in answer.json()["error"]["message"]


def test_the_sample_project_can_be_trained_at_once(service, dora):
    called = []
    service.app.state.service.on_photo = lambda: called.append(1)
    made = dora.post("/api/projects/sample")
    assert made.status_code == 201
    project = made.json()
    assert (project["name"], project["classes"], project["photos"]) == ("Sample drawings", 5, 40)
    assert projects_of(dora)[1] == project
    assert called, "a worker starts"
    here = {"project": project["id"]}
    photos = dora.get("/api/photos", params=here).json()["photos"]
    assert {one["media_type"] for one in photos} == {"image/png"}
    assert dora.get(f"/api/photos/{photos[0]['id']}/thumbnail", params=here).status_code == 200
    photo = Image.open(BytesIO(dora.get(f"/api/photos/{photos[0]['id']}", params=here).content))
    drawing = sample_drawings(8, seed=0)[0].sources[0]
    assert np.array_equal(photo, enlarge_drawing(drawing, 252)), "with smooth lines"
    training = dora.post("/api/trainings", json={"steps": 0}, params=here).json()
    assert Worker(service.store, backbone(), name="here").run_next()
    state = dora.get(f"/api/trainings/{training['id']}", params=here).json()
    assert (state["state"], state["message"]) == ("done", "")
    answer = dora.post(
        "/api/predictions",
        content=dora.get(f"/api/photos/{photos[0]['id']}", params=here).content,
        headers={"Content-Type": "image/png"},
        params=here,
    )
    classes = dora.get("/api/classes", params=here).json()["classes"]
    assert answer.json()["class"] == classes[0]["name"]


def test_a_sample_project_that_does_not_fit_leaves_nothing(service, dora):
    service.store.users.set_quota(dora.get("/api/me").json()["id"], Quota(photos=39))
    refused = dora.post("/api/projects/sample")
    assert refused.status_code == 507
    assert "the quota is 39" in refused.json()["error"]["message"]
    assert [one["name"] for one in projects_of(dora)] == ["My classifier"]
    assert dora.get("/api/me").json()["used"]["photos"] == 0
