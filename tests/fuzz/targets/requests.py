"""Requests to the service: JSON bodies, queries, headers, uploads of photos and of update files."""

from __future__ import annotations

import asyncio
import json
import os
import random
import tempfile
from functools import cache
from pathlib import Path

import httpx

from filmtransfer.serve.app import create_app
from filmtransfer.serve.engine.batcher import Batcher
from filmtransfer.serve.engine.cache import Cache
from filmtransfer.serve.settings import ServiceSettings
from filmtransfer.serve.store import Store, StoreLocation
from filmtransfer.serve.store.users import hash_token
from tests.fuzz.mutation import mutate_bytes, mutate_json
from tests.fuzz.targets import images, update_files

ADMIN = "the-admin-of-the-fuzzer"
SETTINGS = ServiceSettings(admin_digest=hash_token(ADMIN), rate=1_000_000_000)
ENDLESS = "/events"  # a stream that lasts as long as the training
JSON, JPEG, BINARY = "application/json", "image/jpeg", "application/octet-stream"


def seeds() -> list[bytes]:
    """Return requests to all routes; the first line is method, target and content type, the rest the body."""
    photo, update = images.seeds()[0], update_files.seeds()[0]
    sent: list[tuple[str, str, object]] = [
        ("POST /api/classes", JSON, {"name": "cup"}),
        ("PATCH /api/classes/1", JSON, {"name": "mug"}),
        ("POST /api/projects", JSON, {"name": "kitchen"}),
        ("PATCH /api/projects/1", JSON, {"name": "hall"}),
        ("POST /api/trainings", JSON, {"steps": 5, "preset": "fast", "image_size": 64, "settings": {}}),
        ("PUT /api/versions/current", JSON, {"number": 1}),
        ("PATCH /api/photos/1", JSON, {"class_id": "1"}),
        ("POST /api/users", JSON, {"name": "otto", "quota": {"photos": 10, "bytes": 1000, "classes": 5}}),
        ("PUT /api/users/1/quota", JSON, {"photos": 10, "bytes": 10**6}),
        ("POST /api/users/1/token", JSON, {}),
        ("POST /api/predictions?top=3&reject=true", JPEG, photo),
        ("POST /api/predictions?version=1&project=1", "image/png", images.seeds()[3]),
        ("POST /api/classes/1/photos?name=cup.jpg", JPEG, photo),
        ("POST /api/versions", BINARY, update),
        *((f"GET {path}", "", b"") for path in PATHS),
        *((f"DELETE {path}", "", b"") for path in PATHS[1:8]),
    ]
    return [
        f"{line} {kind}\n".encode() + (body if isinstance(body, bytes) else json.dumps(body).encode())
        for line, kind, body in sent
    ]


PATHS = (
    *("/api/me", "/api/classes/1", "/api/projects/1", "/api/trainings/1", "/api/photos/1", "/api/versions/1"),
    *("/api/users/1", "/api/me/data", "/api/photos?limit=10&offset=0&class_id=1", "/api/classes?project=1"),
    *(
        "/api/photos/1?size=64",
        "/api/versions/1/file",
        "/api/versions/1/check",
        "/api/versions",
        "/api/trainings",
    ),
    *("/api/users", "/api/projects", "/healthz", "/metrics", "/", "/assets/app.js"),
)


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Change the JSON body, the target, or the upload."""
    line, _, body = data.partition(b"\n")
    if rng.random() < 0.5:
        try:
            return line + b"\n" + json.dumps(mutate_json(json.loads(body), rng)).encode()
        except ValueError:
            pass
    if line.startswith(b"POST /api/versions ") and rng.random() < 0.7:
        return line + b"\n" + update_files.mutate(body, rng)
    if rng.random() < 0.5:
        return mutate_bytes(line, [line], rng).replace(b"\n", b"") + b"\n" + body
    return line + b"\n" + mutate_bytes(body, [data], rng)


def run(data: bytes) -> None:
    line, _, body = data.partition(b"\n")
    try:
        method, target, kind = [*line.decode("latin1").split(" "), "", ""][:3]
        url = httpx.URL("http://fuzz").join(target)
        request = httpx.Request(method, url, headers={"Content-Type": kind} if kind else {}, content=body)
    except (httpx.InvalidURL, ValueError, TypeError, UnicodeError):
        return
    if url.host != "fuzz" or url.path.endswith(ENDLESS):
        return
    app, token = service(os.getpid())
    request.headers["Authorization"] = f"Bearer {ADMIN if url.path.startswith('/api/users') else token}"
    response = asyncio.run(_send(app, request))
    assert response.status_code < 500 or response.status_code in (503, 507), (
        f"{response.status_code} {response.text}"
    )
    if response.headers.get("content-type") == JSON:
        response.json()


async def _send(app: object, request: httpx.Request) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:  # type: ignore[arg-type]
        return await client.send(request)


@cache
def service(process: int) -> tuple[object, str]:
    """Return the service of a process and the token of its user."""
    folder = Path(tempfile.mkdtemp(prefix=f"service-{process}-"))
    store = Store.open(StoreLocation.of(folder))
    engine = update_files.engine()
    _, token = store.users.create("anna")
    return create_app(store, engine, Batcher(engine), Cache(16), SETTINGS), token
