"""The routes without a token: health, metrics and the page."""

from __future__ import annotations

import hashlib
import re
from importlib import resources

from fastapi import APIRouter, Request, Response

from ... import __version__
from ..deps import ServiceDep
from ..errors import RETRY_SECONDS, error_response
from ..responses import HTML, Responses, binary, errors
from ..schemas import HealthPublic, NotReadyResponse, ReadinessChecks, ReadinessPublic
from ..store import NotFoundError, StoreUnavailableError

router = APIRouter(tags=["public"])

MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
TEXT: Responses = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}


@router.get("/healthz", responses=errors(503))
async def health(service: ServiceDep) -> HealthPublic:
    """Check that the service and its store respond."""
    if not await service.health.passes():
        raise StoreUnavailableError("The store does not respond to a check.", "Try again in a moment.")
    return HealthPublic(status="ok", version=__version__, backbone=service.engine.backbone)


@router.get(
    "/readyz",
    response_model=ReadinessPublic,
    responses={**errors(), 503: {"model": NotReadyResponse, "description": "Not ready."}},
)
async def readiness(service: ServiceDep) -> ReadinessPublic | Response:
    """Check that this process can serve requests now; its checks are at most a second old.

    It is ready without `space` as well: it serves everything but new photos and trainings, and deletions make space.
    """
    checks = await service.readiness.results()
    failed = [name for name, passed in checks.items() if not passed and name != "space"]
    if failed:
        message = f"The service is not ready: {', '.join(failed)}."
        return error_response(
            503, "not_ready", message, "Try again in a moment.", RETRY_SECONDS, checks=checks
        )
    return ReadinessPublic(status="ready", checks=ReadinessChecks(**checks))


@router.get("/metrics", response_class=Response, responses={**TEXT, **errors()})
def show_metrics(service: ServiceDep) -> Response:
    """Return the metrics for Prometheus."""
    metrics, cache = service.metrics, service.cache
    metrics.queue.set(service.batcher.waiting)
    metrics.uploads.set(service.uploads.waiting + service.file_uploads.waiting)
    metrics.cache_hits.set(cache.hits)
    metrics.cache_misses.set(cache.misses)
    metrics.cache_bytes.set(cache.nbytes)
    try:
        metrics.waiting.set(service.store.trainings.count_waiting())
    except StoreUnavailableError:
        metrics.waiting.set(float("nan"))
    return Response(metrics.text(), media_type=METRICS_TYPE)


@router.get("/", response_class=Response, responses={**HTML, **errors(404)})
def page(request: Request) -> Response:
    """Return the page."""
    return _file("index.html", request)


@router.get("/assets/{name}", response_class=Response, responses={**binary("*/*"), **errors(404, 422)})
def asset(name: str, request: Request) -> Response:
    """Return a file of the page."""
    return _file(name, request)


def _file(name: str, request: Request) -> Response:
    """Return a file of the package by its name, which is never used as a path."""
    folder = resources.files(__package__.rpartition(".")[0]).joinpath("page")
    files = {file.name: file for file in folder.iterdir()}
    suffix = name.rpartition(".")[2]
    if name not in files or suffix not in MEDIA_TYPES or not re.fullmatch(r"[\w.-]+", name):
        raise NotFoundError("There is no such file.", "The page is at /.")
    content = files[name].read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=MEDIA_TYPES[suffix], headers=headers)
