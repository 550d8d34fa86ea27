"""Requests that schemathesis generates from /openapi.json: no server error, and no undocumented response."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from filmtransfer.serve import downloads
from tests.serve.conftest import bearer, encoded

EXAMPLES = 5  # for each route
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@pytest.fixture
def described(service, update_file, monkeypatch):
    """Create one record of each kind for Anna, so that some requests succeed."""
    monkeypatch.setattr(downloads, "MODULE", "tests.serve.fake_download")
    anna = service.client("anna")
    class_id = anna.post("/api/classes", json={"name": "cup"}).json()["id"]
    anna.post(
        f"/api/classes/{class_id}/photos", content=encoded(0, 1), headers={"Content-Type": "image/jpeg"}
    )
    file = {"Content-Type": "application/octet-stream"}
    anna.post("/api/versions", content=update_file.read_bytes(), headers=file).raise_for_status()
    return schemathesis.openapi.from_asgi("/openapi.json", service.app)


@pytest.mark.process(seconds=30)
def test_generated_requests_get_documented_responses(described, service):
    """Send valid and invalid data to every route."""
    run_service = []
    for operation in described.get_all_operations():
        route = operation.ok()
        if route.method.upper() == "DELETE" and route.path.startswith("/api/me"):
            continue  # deletion has its own test
        who = bearer(service.tokens["admin" if route.path.startswith("/api/users") else "anna"])
        for mode in GenerationMode:
            _try(route, mode, who)
        run_service.append(route.path)
    assert len(run_service) >= 30


def _try(route, mode: GenerationMode, who: dict[str, str]) -> None:
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=route.as_strategy(generation_mode=mode))
    def ask(case) -> None:
        case.call_and_validate(headers=who, checks=CHECKS)

    try:
        ask()
    except Unsatisfiable:  # some routes take no data that could be invalid
        assert mode == GenerationMode.NEGATIVE
