"""What is wrong with a request is said in plain sentences, with the name of the field."""

from __future__ import annotations

import json

import pytest

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def anna(service):
    return service.client("anna")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "The body is missing."),
        (b"{", "The body is not valid JSON."),
        (b"[]", "The body has to be a JSON object."),
        (b"{}", "The field 'name' is missing."),
        (b'{"name": 3}', "The field 'name' has to be a text."),
        (b'{"name": "x", "more": 1}', "There is no field 'more'."),
        (b'{"nam": "x"}', "The field 'name' is missing. There is no field 'nam'."),
        (json.dumps({"name": "x" * 500}).encode(), "The field 'name' has more than 400 characters."),
    ],
)
def test_bodies(anna, body, message):
    answer = anna.post("/api/classes", content=body, headers=JSON)
    assert (answer.status_code, answer.json()["error"]["message"]) == (422, message)
    assert answer.json()["error"]["hint"] == "/openapi.json describes what this route takes."


@pytest.mark.parametrize(
    ("path", "kind"), [("/api/classes", "class"), ("/api/projects", "project"), ("/api/users", "user")]
)
@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("", "is empty.", "Choose a name."),
        ("  ", "is empty.", "Choose a name."),
        ("x" * 101, "has 101 characters.", "Use at most 100 characters."),
        ("a\nb", "cannot be displayed", "Remove line breaks and control characters."),
    ],
)
def test_whatever_is_wrong_with_a_name_has_the_same_status(service, path, kind, name, message, hint):
    client = service.client("admin" if kind == "user" else "anna")
    answer = client.post(path, json={"name": name})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["hint"]) == (422, "bad_field", hint)
    assert error["message"].startswith(f"The name of a {kind} ")
    assert message in error["message"]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (-1, "The field 'steps' has to be at least 0."),
        (1001, "The field 'steps' has to be at most 1,000."),
        ("10", "The field 'steps' has to be a whole number."),
    ],
)
def test_numbers(anna, steps, message):
    answer = anna.post("/api/trainings", json={"steps": steps})
    assert (answer.status_code, answer.json()["error"]["message"]) == (422, message)


def test_nested_fields_and_parameters(service, anna):
    quota = {"versions": 0, "photos": -1, "x": 2}
    answer = service.client("admin").post("/api/users", json={"name": "u", "quota": quota})
    assert answer.json()["error"]["message"] == (
        "The field 'quota.photos' has to be at least 0. The field 'quota.versions' has to be at least 1. "
        "There is no field 'quota.x'."
    )
    answer = anna.get("/api/versions/x/file")
    assert answer.json()["error"]["message"] == "The parameter 'number' has to be a whole number."
