"""Requests that a machine thinks up from the description: no bug of ours, and no answer that is not described."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.serve.conftest import bearer, encoded

EXAMPLES = 8  # for each route
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def described(service, update_file):
    """Anna has one of each, so that some requests find something."""
    anna = service.client("anna")
    shelf = anna.post("/api/classes", json={"name": "cup"}).json()["id"]
    anna.post(f"/api/classes/{shelf}/photos", content=encoded(0, 1), headers={"Content-Type": "image/jpeg"})
    file = {"Content-Type": "application/octet-stream"}
    anna.post("/api/versions", content=update_file.read_bytes(), headers=file).raise_for_status()
    return schemathesis.openapi.from_asgi("/openapi.json", service.app)


schema = schemathesis.pytest.from_fixture("described").exclude(path="/api/me", method="DELETE")


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_request_finds_a_bug(case, service):
    who = "admin" if case.path.startswith("/api/users") else "anna"
    case.call_and_validate(headers=bearer(service.tokens[who]), checks=CHECKS)
