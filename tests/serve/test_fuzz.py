"""Requests that a machine thinks up from the description: no bug of ours, and no answer that is not described."""

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

from tests.serve.conftest import bearer, encoded

EXAMPLES = 5  # for each route
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


def test_no_request_finds_a_bug(described, service):
    """Every route with data that fits its description, and with data that does not."""
    tried = []
    for found in described.get_all_operations():
        route = found.ok()
        if (route.method.upper(), route.path) == ("DELETE", "/api/me"):
            continue  # the end of everything has a test of its own
        who = bearer(service.tokens["admin" if route.path.startswith("/api/users") else "anna"])
        for mode in GenerationMode:
            _try(route, mode, who)
        tried.append(route.path)
    assert len(tried) >= 30


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
    except Unsatisfiable:  # some routes take nothing that could be wrong
        assert mode == GenerationMode.NEGATIVE
