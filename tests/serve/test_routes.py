"""Every route, in the order of a user's actions."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from functools import partial
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from filmtransfer import FewShotClassifier
from filmtransfer.cli import main
from filmtransfer.serve.settings import LEASE
from filmtransfer.serve.store.tables import photos
from tests.serve.conftest import CLASSES, add_two_classes, encoded

JPEG = {"Content-Type": "image/jpeg"}
FILE = {"Content-Type": "application/octet-stream"}
SUMMARY = {
    "stage": "first",
    "classes": {"disc": 2, "bars": 1},
    "steps": 0,
    "seconds": 1.5,
    "estimate": {"accuracy": 0.5, "low": 0.2, "high": 0.8, "images": 2, "unseen": True},
    "confusion": [[1, 1], [0, 0]],
    "bytes": 3,
}


@pytest.fixture(scope="module")
def anna(service):
    return service.client("anna")


@pytest.fixture(scope="module")
def admin(service):
    return service.client("admin")


def test_health_page_and_description(service):
    anyone = service.client(None)
    health = anyone.get("/healthz")
    assert health.status_code == 200
    assert health.json() | {"version": ""} == {
        "status": "ok",
        "version": "",
        "backbone": "efficientnet_lite0",
    }
    described = anyone.get("/openapi.json").json()
    assert {"user", "admin"} == set(described["components"]["securitySchemes"])
    assert "HTTPValidationError" not in described["components"]["schemas"]
    assert anyone.get("/docs").status_code == 404


def test_the_page_and_its_files(service):
    anyone = service.client(None)
    page = anyone.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    names = re.findall(r'(?:src|href)="/?assets/([^"]+)"', page.text)
    assert names
    kinds = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
    for name in names:
        file = anyone.get(f"/assets/{name}")
        assert file.status_code == 200, name
        assert file.headers["content-type"] == kinds[name.rpartition(".")[2]]
        again = anyone.get(f"/assets/{name}", headers={"If-None-Match": file.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


def test_users_are_managed_by_the_admin(admin):
    made = admin.post("/api/users", json={"name": "Carla", "quota": {"photos": 3}})
    assert made.status_code == 201
    user = made.json()
    assert user["quota"]["photos"] == 3
    assert user["quota"]["classes"] == 100
    listed = admin.get("/api/users").json()["users"]
    assert user["id"] in [one["id"] for one in listed]
    assert all("token" not in one for one in listed)
    shown = admin.get(f"/api/users/{user['id']}").json()
    assert shown["used"] == {"classes": 0, "photos": 0, "bytes": 0, "versions": 0}
    again = admin.post(f"/api/users/{user['id']}/token").json()["token"]
    assert again != user["token"]
    changed = admin.put(f"/api/users/{user['id']}/quota", json={"bytes": 1000}).json()
    assert changed["quota"] == {"classes": 100, "photos": 3, "bytes": 1000, "versions": 20}
    assert admin.delete(f"/api/users/{user['id']}").status_code == 204
    assert admin.get(f"/api/users/{user['id']}").status_code == 404


def test_token_renewal_and_self_deletion(service, admin):
    made = admin.post("/api/users", json={"name": "Dora"}).json()
    service.tokens["dora"] = made["token"]
    dora = service.client("dora")
    assert dora.get("/api/me").json()["name"] == "Dora"
    service.tokens["dora again"] = admin.post(f"/api/users/{made['id']}/token").json()["token"]
    assert dora.get("/api/me").status_code == 401
    again = service.client("dora again")
    class_id = again.post("/api/classes", json={"name": "cup"}).json()["id"]
    again.post(f"/api/classes/{class_id}/photos", content=encoded(0, 1), headers=JPEG).raise_for_status()
    assert again.delete("/api/me").status_code == 204
    assert again.get("/api/me").status_code == 401
    assert admin.get(f"/api/users/{made['id']}").status_code == 404


def test_classes(anna):
    made = [anna.post("/api/classes", json={"name": name}) for name in ("cup", " keys ")]
    assert [one.status_code for one in made] == [201, 201]
    assert [one.json()["name"] for one in made] == ["cup", "keys"]
    cup, keys = (one.json()["id"] for one in made)
    assert [row["id"] for row in anna.get("/api/classes").json()["classes"]] == [cup, keys]
    assert anna.post("/api/classes", json={"name": "cup"}).status_code == 409
    renamed = anna.patch(f"/api/classes/{cup}", json={"name": "mug"})
    assert renamed.json() == {"id": cup, "name": "mug", "photos": 0}
    assert anna.patch(f"/api/classes/{cup}", json={"name": "keys"}).status_code == 409
    for row in (cup, keys):
        assert anna.delete(f"/api/classes/{row}").status_code == 204
    assert anna.get("/api/classes").json() == {"classes": []}


def test_a_photo_of_a_clock_that_was_ahead_is_there_already(service, anna):
    """Whether a photo is new is known by the store; times do not tell."""
    cup = anna.post("/api/classes", json={"name": "later"}).json()["id"]
    send = partial(anna.post, f"/api/classes/{cup}/photos", content=encoded(0, 7), headers=JPEG)
    photo = send().json()
    with service.store.database.write() as connection:
        ahead = datetime.now(UTC) + timedelta(days=1)
        connection.execute(photos.update().where(photos.c.id == photo["id"]).values(created=ahead))
    again = send()
    assert (again.status_code, again.json()["id"]) == (200, photo["id"])
    anna.delete(f"/api/classes/{cup}").raise_for_status()


def test_a_quota_has_room_for_a_version(admin):
    """The store needs one; the description of the API says so."""
    described = admin.get("/openapi.json").json()["components"]["schemas"]["QuotaUpdate"]["properties"]
    assert described["versions"]["anyOf"][0]["minimum"] == 1
    made = admin.post("/api/users", json={"name": "Eve", "quota": {"versions": 0}})
    assert made.status_code == 422
    assert "versions" in made.json()["error"]["message"]


def test_photos(anna):
    cup, keys = (anna.post("/api/classes", json={"name": name}).json()["id"] for name in ("cup", "keys"))
    content = encoded(0, 1)
    made = anna.post(f"/api/classes/{cup}/photos", content=content, headers=JPEG)
    assert made.status_code == 201
    photo = made.json()
    assert photo | {"created": ""} == {
        "id": photo["id"], "class_id": cup, "bytes": len(content), "media_type": "image/jpeg", "created": "",
    }  # fmt: skip
    again = anna.post(f"/api/classes/{cup}/photos", content=content, headers=JPEG)
    assert (again.status_code, again.json()) == (200, photo)
    other = anna.post(f"/api/classes/{keys}/photos", content=encoded(1, 1, "PNG"), headers=FILE).json()
    assert other["media_type"] == "image/png"  # by its content
    assert [row["id"] for row in anna.get("/api/photos").json()["photos"]] == [photo["id"], other["id"]]
    assert anna.get("/api/photos", params={"class_id": keys}).json()["photos"] == [other]
    assert anna.get("/api/me").json()["used"]["photos"] == 2

    shown = anna.get(f"/api/photos/{photo['id']}")
    assert shown.content == content
    assert shown.headers["content-type"] == "image/jpeg"
    assert re.fullmatch(r'inline; filename="photo-[0-9a-f]+\.jpg"', shown.headers["content-disposition"])
    small = anna.get(f"/api/photos/{photo['id']}/thumbnail")
    assert small.headers["content-type"] == "image/jpeg"
    assert Image.open(BytesIO(small.content)).size == (40, 40)

    moved = anna.patch(f"/api/photos/{photo['id']}", json={"class_id": keys})
    assert moved.json()["class_id"] == keys
    assert anna.get("/api/photos", params={"class_id": cup}).json() == {"photos": []}
    assert anna.delete(f"/api/photos/{photo['id']}").status_code == 204
    assert anna.get(f"/api/photos/{photo['id']}").status_code == 404
    for row in (cup, keys):
        anna.delete(f"/api/classes/{row}").raise_for_status()
    assert anna.get(f"/api/photos/{other['id']}").status_code == 404  # deleted with its class


def test_thumbnails_are_small_and_upright(anna):
    class_id = anna.post("/api/classes", json={"name": "thumbnails"}).json()["id"]
    wide = Image.new("RGB", (800, 400), "black")
    wide.paste("white", (0, 0, 400, 400))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be displayed rotated by 90° clockwise
    out = BytesIO()
    wide.save(out, "JPEG", exif=exif)
    photo = anna.post(f"/api/classes/{class_id}/photos", content=out.getvalue(), headers=JPEG).json()
    small = Image.open(BytesIO(anna.get(f"/api/photos/{photo['id']}/thumbnail").content))
    assert small.size == (96, 192)
    grey = np.asarray(small.convert("L"))
    assert grey[:90].mean() > 240
    assert grey[102:].mean() < 15
    assert not small.getexif()  # no metadata, such as the location
    anna.delete(f"/api/classes/{class_id}").raise_for_status()


def test_command_python_and_http_give_the_same_prediction(anna, update_file, tmp_path, capsys):
    made = anna.post("/api/versions", content=update_file.read_bytes(), headers=FILE)
    assert made.status_code == 201
    version = made.json()
    assert version["source"] == "uploaded"
    assert version["current"]
    assert version["classes"] == dict.fromkeys(CLASSES, 4)
    clf = FewShotClassifier.load(update_file)
    for kind in range(3):
        photo = tmp_path / f"{kind}.jpg"
        photo.write_bytes(encoded(kind, 500 + kind))
        asked = anna.post("/api/predictions", content=photo.read_bytes(), headers=JPEG)
        assert asked.status_code == 200
        prediction = asked.json()
        assert prediction["version"] == version["number"]
        assert prediction["probabilities"][0]["class"] == CLASSES[kind]
        assert prediction["class"] == clf.predict([photo], reject=True)[0]  # None: out-of-distribution
        assert prediction["unknown"] == (prediction["class"] is None)
        http = {one["class"]: one["p"] for one in prediction["probabilities"]}
        assert list(http.values()) == sorted(http.values(), reverse=True)
        python = dict(zip(clf.classes_, clf.predict_proba([photo])[0], strict=True))
        capsys.readouterr()
        assert main(["predict", str(update_file), str(photo), "--top", "3", "--json"]) == 0
        printed = json.loads(capsys.readouterr().out)["predictions"][0]
        command = {one["class"]: one["p"] for one in printed["probabilities"]}
        assert http == pytest.approx(python, abs=1e-5)
        assert command == pytest.approx(python, abs=1e-5)


def test_versions(anna, update_file):
    content = update_file.read_bytes()
    older = anna.post("/api/versions", content=content, headers=FILE).json()["number"]
    newer = anna.post("/api/versions", content=content, headers=FILE).json()["number"]
    assert newer == older + 1
    listed = anna.get("/api/versions").json()["versions"]
    assert [one["number"] for one in listed][:2] == [newer, older]
    assert [one["number"] for one in listed if one["current"]] == [newer]
    back = anna.put("/api/versions/current", json={"number": older})
    assert back.json()["current"]
    assert anna.get("/api/me").json()["current"]["number"] == older
    image = encoded(0, 7)
    assert anna.post("/api/predictions", content=image, headers=JPEG).json()["version"] == older
    asked = anna.post("/api/predictions", params={"version": newer}, content=image, headers=JPEG)
    assert asked.json()["version"] == newer
    file = anna.get(f"/api/versions/{newer}/file")
    assert file.content == content
    assert file.headers["content-disposition"] == f'attachment; filename="classifier-{newer}.safetensors"'
    assert anna.get(f"/api/versions/{newer}/check").status_code == 404  # it was not trained here
    assert anna.delete(f"/api/versions/{older}").status_code == 409  # the current one
    assert anna.delete(f"/api/versions/{newer}").status_code == 204
    deleted = anna.post("/api/predictions", params={"version": newer}, content=image, headers=JPEG)
    assert deleted.status_code == 404


def test_no_version_yet_is_a_conflict(service):
    asked = service.client("bob").post("/api/predictions", content=encoded(0, 1), headers=JPEG)
    assert asked.status_code == 409
    assert asked.json()["error"]["code"] == "conflict"
    assert "train" in asked.json()["error"]["hint"]


def test_a_training_and_its_assessment(service):
    project = service.store.projects.resolve(service.add_user("carla"))
    client = service.client("carla")
    add_two_classes(client)
    asked = client.post("/api/trainings", json={"steps": 0})
    assert asked.status_code == 202
    training = asked.json()
    assert training["state"] == "waiting"
    assert client.get("/api/me").json()["training"] == training
    taken = service.store.trainings.claim("a worker", LEASE)
    assert (taken.id, taken.options) == (training["id"], {"steps": 0})
    photos = [{"id": "0123456789abcdef", "index": 0, "truth": "disc", "said": "bars", "p": 0.75}]
    made = service.store.versions.publish(
        project, b"xyz", "trained", SUMMARY | {"photos": photos}, training["id"]
    )
    service.store.trainings.end(training["id"], "a worker", "done")
    assert client.get(f"/api/trainings/{training['id']}").json()["state"] == "done"
    assert [one["id"] for one in client.get("/api/trainings").json()["trainings"]] == [training["id"]]
    assert client.get("/api/me").json()["training"] is None
    version = client.get("/api/versions").json()["versions"][0]
    assert (version["stage"], version["accuracy"], version["low"]) == ("first", 0.5, 0.2)
    assert version["estimate"] == SUMMARY["estimate"] | {
        "percentage": "50%",
        "text": "Estimated accuracy on new photos 50% (95% interval 20% to 80%), from 2 photos, each classified without itself.",
    }
    check = client.get(f"/api/versions/{made.number}/check").json()
    assert check["classes"] == ["disc", "bars"]
    assert check["confusion"] == [[1, 1], [0, 0]]
    assert check["estimate"] == version["estimate"]
    assert (check["images"], check["unseen_images"]) == (2, 2)
    assert check["photos"] == [{"id": "0123456789abcdef", "truth": "disc", "said": "bars", "p": 0.75}]


def test_a_training_needs_photos_of_two_classes(service):
    """The request is refused at once, rather than failing when a worker takes it."""
    service.add_user("erin")
    erin = service.client("erin")
    ids = [erin.post("/api/classes", json={"name": name}).json()["id"] for name in ("cup", "keys")]
    for present, id in (("no class has photos", ids[0]), ("only one class has photos", ids[1])):
        refused = erin.post("/api/trainings", json={})
        assert refused.status_code == 409
        error = refused.json()["error"]
        assert error["code"] == "conflict"
        assert error["message"] == f"A training needs photos of at least two classes; {present}."
        assert error["hint"] == "Add a few photos to each of two or more classes, then train."
        assert erin.get("/api/trainings").json() == {"trainings": []}
        erin.post(f"/api/classes/{id}/photos", content=encoded(0, 1), headers=JPEG).raise_for_status()
    started = erin.post("/api/trainings", json={})
    assert started.status_code == 202
    erin.delete(f"/api/trainings/{started.json()['id']}").raise_for_status()


def test_records_of_another_project_are_not_found_and_the_project_is_mentioned(service):
    service.add_user("fay")
    fay = service.client("fay")
    other = fay.post("/api/projects", json={"name": "other"}).json()["id"]
    add_two_classes(fay, project=other)
    here = {"project": other}
    class_id = fay.get("/api/classes", params=here).json()["classes"][0]["id"]
    photo = fay.get("/api/photos", params=here).json()["photos"][0]["id"]
    training = fay.post("/api/trainings", json={}, params=here).json()["id"]
    for path in (
        f"/api/photos?class_id={class_id}",
        f"/api/photos/{photo}",
        f"/api/trainings/{training}",
        f"/api/trainings/{training}/events",
        "/api/versions/1/file",
    ):
        missing = fay.get(path)
        assert missing.status_code == 404
        assert "?project=ID" in missing.json()["error"]["hint"], path
    assert fay.get(f"/api/trainings/{training}", params=here).status_code == 200
    unknown = fay.get("/api/classes", params={"project": "0" * 16}).json()["error"]
    assert "?project=" not in unknown["hint"]
    fay.delete(f"/api/trainings/{training}", params=here).raise_for_status()


def test_two_trainings_at_once_are_a_conflict_and_cancelling_is_idempotent(service):
    service.add_user("two")
    client = service.client("two")
    add_two_classes(client)
    first = client.post("/api/trainings").json()  # without a body: default options
    assert client.post("/api/trainings", json={}).status_code == 409
    for _ in range(2):
        ended = client.delete(f"/api/trainings/{first['id']}")
        assert ended.status_code == 202
        assert ended.json()["state"] == "cancelled"
    second = client.post("/api/trainings", json={"steps": 1})
    assert second.status_code == 202
    client.delete(f"/api/trainings/{second.json()['id']}").raise_for_status()


def test_metrics_contain_no_names(service, anna):
    anna.get("/api/photos/0123456789abcdef")
    text = anna.get("/metrics").text
    assert 'fit_requests_total{method="GET",route="/api/photos/{id}",status="404"}' in text
    assert "0123456789abcdef" not in text
    counts = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(counts["fit_batch_images_count"]) >= 1
    assert float(counts["fit_cache_misses"]) >= 1
    assert float(counts["fit_cache_hits"]) >= 1
    assert float(counts["fit_trainings_waiting"]) == 0
    assert float(counts["fit_queue_images"]) == 0
    assert service.client(None).get("/no/such/path").status_code == 404
    assert 'route="other",status="404"' in anna.get("/metrics").text
