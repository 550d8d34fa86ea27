"""Every route with the wrong token; the routes are read from /openapi.json, so that none is missing."""

from __future__ import annotations

import pytest

from tests.serve.conftest import add_two_classes, encoded

JPEG = {"Content-Type": "image/jpeg"}
FILE = {"Content-Type": "application/octet-stream"}
SECRET = "annas-secret-class"


@pytest.fixture(scope="module")
def records(service, update_file):
    """Create one record of each kind for Anna."""
    anna = service.client("anna")
    class_id = anna.post("/api/classes", json={"name": SECRET}).json()["id"]
    photo = anna.post(f"/api/classes/{class_id}/photos", content=encoded(0, 1), headers=JPEG).json()["id"]
    for _ in range(2):
        version = anna.post("/api/versions", content=update_file.read_bytes(), headers=FILE).json()["number"]
    add_two_classes(anna)
    training = anna.post("/api/trainings", json={}).json()["id"]
    me = anna.get("/api/me").json()
    return {
        "class": class_id, "photo": photo, "version": version, "training": training,
        "user": me["id"], "project": me["project"],
    }  # fmt: skip


def routes(service):
    """Yield the method, the path template and the kinds of token of each route."""
    for path, methods in service.app.openapi()["paths"].items():
        for method, about in methods.items():
            kinds = [name for one in about.get("security", []) for name in one]
            yield method.upper(), path, kinds


KINDS = {
    "users": "user",
    "classes": "class",
    "photos": "photo",
    "trainings": "training",
    "projects": "project",
}


def filled(path: str, records) -> str:
    id = next((kind for noun, kind in KINDS.items() if path.startswith(f"/api/{noun}/")), None)
    return path.replace("{id}", records[id] if id else "").replace("{number}", str(records["version"]))


BODIES = {
    ("POST", "/api/classes"): {"json": {"name": "new"}},
    ("POST", "/api/projects"): {"json": {"name": "new"}},
    ("PATCH", "/api/projects/{id}"): {"json": {"name": "stolen"}},
    ("PATCH", "/api/classes/{id}"): {"json": {"name": "stolen"}},
    ("PATCH", "/api/photos/{id}"): {"json": {"class_id": "0123456789abcdef"}},
    ("PUT", "/api/versions/current"): {"json": {"number": 9}},
    ("POST", "/api/users"): {"json": {"name": "new"}},
    ("PUT", "/api/users/{id}/quota"): {"json": {"photos": 0}},
    ("POST", "/api/trainings"): {"json": {}},
    ("POST", "/api/classes/{id}/photos"): {"content": encoded(0, 2), "headers": JPEG},
    ("POST", "/api/predictions"): {"content": encoded(0, 2), "headers": JPEG},
    ("POST", "/api/versions"): {"content": b"no update", "headers": FILE},
}


def test_every_route_declares_its_kind_of_token(service):
    listed = list(routes(service))
    assert len(listed) >= 30
    for method, path, kinds in listed:
        if path.startswith("/api/users"):
            assert kinds == ["admin"], (method, path)
        elif path.startswith("/api/"):
            assert kinds == ["user"], (method, path)
        else:
            assert kinds == [], (method, path)
            assert method == "GET"


@pytest.mark.parametrize("who", [None, "unknown"])
def test_routes_refuse_missing_and_unknown_tokens(service, records, who):
    client = service.client(who)
    for method, path, kinds in routes(service):
        if kinds:
            answer = client.request(method, filled(path, records), **BODIES.get((method, path), {}))
            assert answer.status_code == 401, (method, path)
            assert answer.headers["www-authenticate"] == "Bearer"
            assert set(answer.json()["error"]) == {"code", "message", "hint"}


def test_routes_refuse_the_wrong_kind_of_token(service, records):
    for method, path, kinds in routes(service):
        if kinds:
            client = service.client("admin" if kinds == ["user"] else "bob")
            answer = client.request(method, filled(path, records), **BODIES.get((method, path), {}))
            assert answer.status_code == 403, (method, path)
            assert SECRET not in answer.text


def test_another_user_has_no_access(service, records):
    bob, anna = service.client("bob"), service.client("anna")

    before = state_of(anna)
    for method, path, kinds in routes(service):
        if kinds != ["user"] or (method, path) in DELETIONS:
            continue
        answer = bob.request(method, filled(path, records), **BODIES.get((method, path), {}))
        assert SECRET not in answer.text, (method, path)
        if "{" in path:  # it has the id of a record of Anna's
            assert answer.status_code == 404, (method, path)
            assert not any(value in answer.text for value in map(str, records.values()) if len(value) > 4)
        assert answer.status_code < 500, (method, path)
    assert state_of(anna) == before


# Routes of all projects; every other one is about the project that the request names.
WITHOUT_PROJECT = ("/api/users", "/api/projects")
DELETIONS = (("DELETE", "/api/me"), ("DELETE", "/api/me/data"))


def state_of(client):
    paths = ("classes", "photos", "trainings", "versions", "me", "projects")
    return [client.get(f"/api/{path}").json() for path in paths]


def test_every_route_about_a_project_takes_the_project(service):
    for path, methods in service.app.openapi()["paths"].items():
        for method, about in methods.items():
            takes = "project" in [one["name"] for one in about.get("parameters", []) if one["in"] == "query"]
            is_of_project = path.startswith("/api/") and not path.startswith(WITHOUT_PROJECT)
            assert takes == (is_of_project and (method.upper(), path) not in DELETIONS), (method, path)


@pytest.mark.parametrize("project", ["annas", "unknown", "\0", "' OR 1=1", ""])
def test_the_project_of_another_user_does_not_exist(service, records, project):
    """Bob names Anna's project in every route that takes one, with the ids of her records and without."""
    bob, anna = service.client("bob"), service.client("anna")
    before = state_of(anna)
    named = {"annas": records["project"], "unknown": "0" * 16}.get(project, project)
    for method, path, kinds in routes(service):
        if kinds != ["user"] or path.startswith(WITHOUT_PROJECT) or (method, path) in DELETIONS:
            continue
        request = {"params": {"project": named}, **BODIES.get((method, path), {})}
        answer = bob.request(method, filled(path, records), **request)
        assert answer.status_code == 404, (method, path, answer.text)
        assert SECRET not in answer.text
    assert state_of(anna) == before


def test_records_are_those_of_the_named_project_only(service, records):
    """In another project of Anna's her own records do not exist."""
    anna = service.client("anna")
    before = state_of(anna)
    other = anna.post("/api/projects", json={"name": "other"}).json()["id"]
    for method, path, kinds in routes(service):
        if kinds == ["user"] and "{" in path and not path.startswith(WITHOUT_PROJECT):
            request = {"params": {"project": other}, **BODIES.get((method, path), {})}
            answer = anna.request(method, filled(path, records), **request)
            assert answer.status_code == 404, (method, path)
    assert anna.get("/api/classes", params={"project": other}).json() == {"classes": []}
    assert anna.delete(f"/api/projects/{other}").status_code == 204
    assert state_of(anna) == before


def test_a_token_is_a_bearer_token_in_a_header(service):
    token = service.tokens["anna"]
    nobody = service.client(None)
    assert nobody.get("/api/me", params={"token": token}).status_code == 401
    assert nobody.get("/api/me", headers={"Cookie": f"token={token}"}).status_code == 401
    for header in (token, f"Basic {token}", "Bearer", f"Bearer {token}x", f"Bearer {'x' * 5000}", "Bearer ü"):
        given = {"Authorization": header.encode("latin-1")}
        assert nobody.get("/api/me", headers=given).status_code == 401, header
    assert nobody.get("/api/me", headers={"Authorization": f"bearer  {token}"}).status_code == 200


@pytest.mark.parametrize(
    "path", ["/api/../api/me", "//api/me", "/API/me", "/api/me/", "/api%2Fme", "/api", "/api/"]
)
def test_no_spelling_of_a_path_bypasses_authentication(service, path):
    assert service.client(None).get(path).status_code in (401, 404)


def test_security_headers(service):
    anyone = service.client(None)
    for path in ("/", "/healthz", "/api/me", "/no/such/path", "/openapi.json"):
        headers = anyone.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers
        assert "access-control-allow-origin" not in headers
        assert len(headers["x-request-id"]) == 12
    assert anyone.options("/api/me", headers={"Origin": "https://elsewhere.example"}).status_code == 401


@pytest.mark.parametrize(
    "name",
    [
        "..%2f..%2fapp.py",
        "../app.py",
        "%2e%2e/app.py",
        "index.html%00.js",
        "nothing.js",
        ".gitkeep",
        "a b.js",
    ],
)
def test_only_files_of_the_page_are_served(service, name):
    assert service.client(None).get(f"/assets/{name}").status_code == 404
