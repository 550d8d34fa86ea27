"""What needs no token: health, metrics and the page."""

from __future__ import annotations

import hashlib
import re
from importlib import resources

from fastapi import APIRouter, Request, Response

from ... import __version__
from .. import shapes
from ..service import TheService
from ..shapes import errors
from ..store import NotFoundError, StoreGoneError

router = APIRouter(tags=["public"])

KINDS = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
    "woff2": "font/woff2",
    "webmanifest": "application/manifest+json",
}
A_FILE: shapes.Responses = {200: {"content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}}}
METRICS = "text/plain; version=0.0.4; charset=utf-8"
A_TEXT: shapes.Responses = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
A_PAGE: shapes.Responses = {200: {"content": {"text/html": {"schema": {"type": "string"}}}}}


@router.get("/healthz", responses=errors(503))
def health(service: TheService) -> shapes.Health:
    """Whether the service and its store are there."""
    service.store.ping()
    return shapes.Health(status="ok", version=__version__, backbone=service.engine.backbone.name)


@router.get("/metrics", response_class=Response, responses={**A_TEXT, **errors()})
def metrics(service: TheService) -> Response:
    """Counts for Prometheus."""
    told = service.metrics
    told.queue.set(service.batcher.waiting)
    told.hits.set(service.cache.hits)
    told.misses.set(service.cache.misses)
    told.held.set(service.cache.nbytes)
    try:
        told.waiting.set(service.store.waiting())
    except StoreGoneError:
        told.waiting.set(float("nan"))
    return Response(told.text(), media_type=METRICS)


@router.get("/", response_class=Response, responses={**A_PAGE, **errors(404)})
def page(request: Request) -> Response:
    """The page."""
    return _file("index.html", request)


@router.get("/assets/{name}", response_class=Response, responses={**A_FILE, **errors(404, 422)})
def asset(name: str, request: Request) -> Response:
    """A file of the page."""
    return _file(name, request)


def _file(name: str, request: Request) -> Response:
    """One of the files that ship with the package; a name is looked up, it is never a path."""
    known = {
        file.name: file for file in resources.files(__package__.rpartition(".")[0]).joinpath("page").iterdir()
    }
    ending = name.rpartition(".")[2]
    if name not in known or ending not in KINDS or not re.fullmatch(r"[\w.-]+", name):
        raise NotFoundError("There is no such file.", "The page is at /.")
    content = known[name].read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=KINDS[ending], headers=headers)
