"""A fake service for states that are hard to reach with a real one: it stores everything in memory, sends the events of a
training as the test tells it, and fails on request."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from PIL import Image

PAGE = Path(__file__).parents[3] / "src/filmtransfer/serve/page"
CSP = "default-src 'self'; img-src 'self' blob: data:; media-src blob:"
NOW = "2026-11-16T12:00:00+00:00"
TOKEN = "a-token"


def failure(status: int, code: str, message: str, hint: str = "", **headers: str) -> JSONResponse:
    return JSONResponse(
        {"error": {"code": code, "message": message, "hint": hint}},
        status,
        headers={k.replace("_", "-"): v for k, v in headers.items()},
    )


@dataclass
class Fake:
    """The state of the fake service, and its next failures."""

    classes: dict[str, dict[str, Any]] = field(default_factory=dict)
    photos: dict[str, dict[str, Any]] = field(default_factory=dict)
    content: dict[str, bytes] = field(default_factory=dict)
    versions: list[dict[str, Any]] = field(default_factory=list)
    checks: dict[int, dict[str, Any]] = field(default_factory=dict)
    trainings: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    answer: dict[str, Any] | None = None
    failures: dict[str, list[JSONResponse]] = field(
        default_factory=dict
    )  # "POST /api/trainings" → next responses
    seen: list[str] = field(default_factory=list)
    ids: Any = field(default_factory=itertools.count)
    seconds: Any = field(default_factory=itertools.count)

    def reset(self) -> None:
        self.__dict__.update(Fake().__dict__)

    def id(self) -> str:
        return f"{next(self.ids):016x}"

    def moment(self) -> str:
        """Return a later time at each call."""
        return (datetime.fromisoformat(NOW) + timedelta(seconds=next(self.seconds))).isoformat()

    def add_class(self, name: str, pictures: list[Image.Image] = ()) -> str:  # type: ignore[assignment]
        key = self.id()
        self.classes[key] = {"id": key, "name": name}
        for picture in pictures:
            self.add_photo(key, picture)
        return key

    def add_photo(self, class_id: str, picture: Image.Image) -> str:
        data = io.BytesIO()
        picture.save(data, "JPEG")
        return str(self.keep(class_id, data.getvalue())["id"])

    def keep(self, class_id: str, data: bytes) -> dict[str, Any]:
        key = self.id()
        self.content[key] = data
        self.photos[key] = {
            "id": key,
            "class_id": class_id,
            "bytes": len(data),
            "media_type": "image/jpeg",
            "created": self.moment(),
        }
        return self.photos[key]

    def counts(self) -> dict[str, int]:
        return {
            row["name"]: sum(p["class_id"] == key for p in self.photos.values())
            for key, row in self.classes.items()
        }

    def publish(self, stage: str | None, accuracy: float | None, source: str = "trained") -> dict[str, Any]:
        for version in self.versions:
            version["current"] = False
        number = max((v["number"] for v in self.versions), default=0) + 1
        version = {
            "number": number, "created": self.moment(), "bytes": 131_072 + number, "source": source, "current": True, "stage": stage,
            "classes": self.counts() if source == "trained" else {}, "accuracy": accuracy,
            "low": None if accuracy is None else max(0.0, accuracy - 0.1), "high": None if accuracy is None else min(1.0, accuracy + 0.06),
        }  # fmt: skip
        self.versions.insert(0, version)
        return version

    def assess(self, number: int, wrong: dict[str, str]) -> None:
        """Set the assessment of a version in which the photos in ``wrong`` are misclassified as the given class."""
        names = [row["name"] for row in self.classes.values()]
        table = [[0] * len(names) for _ in names]
        rows = []
        for key, photo in self.photos.items():
            truth = self.classes[photo["class_id"]]["name"]
            predicted = wrong.get(key, truth)
            table[names.index(truth)][names.index(predicted)] += 1
            rows.append({"id": key, "truth": truth, "said": predicted, "p": 0.81})
        version = next(v for v in self.versions if v["number"] == number)
        self.checks[number] = {
            "classes": names,
            "confusion": table,
            "photos": rows,
            **{k: version[k] for k in ("accuracy", "low", "high")},
        }

    def add_event(self, kind: str, **data: Any) -> None:
        """Add an event of the training; wait for the page to request one."""
        deadline = time.monotonic() + 20
        while not self.trainings and time.monotonic() < deadline:
            time.sleep(0.02)
        if kind != "end" and self.trainings:
            self.trainings[0]["state"] = "running"
        if kind == "end":
            self.trainings[0]["state"] = data["state"]
        self.events.append({"kind": kind, "data": data})


def application(fake: Fake) -> FastAPI:
    app = FastAPI()

    @app.middleware("http")
    async def guard(request: Request, proceed: Any) -> Response:
        path, key = request.url.path, f"{request.method} {request.url.path}"
        fake.seen.append(key)
        if fake.failures.get(key):
            return fake.failures[key].pop(0)
        if path.startswith("/api/") and request.headers.get("authorization") != f"Bearer {TOKEN}":
            return failure(401, "unauthorized", "The token is not known.", "Ask for a new one.")
        response: Response = await proceed(request)
        response.headers["Content-Security-Policy"] = CSP
        return response

    @app.get("/")
    async def index() -> Response:
        return FileResponse(PAGE / "index.html")

    @app.get("/assets/{name}")
    async def asset(name: str) -> Response:
        return FileResponse(PAGE / name)

    @app.get("/healthz")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/api/me")
    async def me() -> dict[str, Any]:
        quota = {"classes": 100, "photos": 2000, "bytes": 2_000_000_000, "versions": 20}
        return {
            "id": "u",
            "name": "me",
            "quota": quota,
            "used": quota,
            "current": None,
            "training": None,
            "backbone": "fake",
            "image_size": 224,
        }

    @app.delete("/api/me", status_code=204)
    async def end() -> None:
        fake.classes.clear()
        fake.photos.clear()
        fake.versions.clear()

    def row(key: str) -> dict[str, Any]:
        return {**fake.classes[key], "photos": sum(p["class_id"] == key for p in fake.photos.values())}

    @app.get("/api/classes")
    async def classes() -> dict[str, Any]:
        return {"classes": [row(key) for key in fake.classes]}

    @app.post("/api/classes", status_code=201)
    async def add_class(request: Request) -> Any:
        name = (await request.json())["name"]
        if any(other["name"] == name for other in fake.classes.values()):
            return failure(
                409, "conflict", f"There is a class called {name} already.", "Choose another name."
            )
        return row(fake.add_class(name))

    @app.patch("/api/classes/{key}")
    async def rename(key: str, request: Request) -> Any:
        fake.classes[key]["name"] = (await request.json())["name"]
        return row(key)

    @app.delete("/api/classes/{key}", status_code=204)
    async def remove_class(key: str) -> None:
        del fake.classes[key]
        for photo in [p for p in fake.photos.values() if p["class_id"] == key]:
            del fake.photos[photo["id"]]

    @app.get("/api/photos")
    async def photos() -> dict[str, Any]:
        return {"photos": list(fake.photos.values())}

    @app.post("/api/classes/{key}/photos")
    async def add_photo(key: str, request: Request) -> Any:
        data = await request.body()
        try:
            Image.open(io.BytesIO(data)).verify()
        except OSError:
            return failure(
                400, "bad_request", "This is not an image that can be read.", "Use JPEG, PNG, WebP or HEIC."
            )
        return JSONResponse(fake.keep(key, data), 201)

    @app.get("/api/photos/{key}")
    async def photo(key: str) -> Response:
        return Response(fake.content[key], media_type="image/jpeg")

    @app.get("/api/photos/{key}/thumbnail")
    async def thumbnail(key: str) -> Response:
        return Response(fake.content[key], media_type="image/jpeg")

    @app.patch("/api/photos/{key}")
    async def move(key: str, request: Request) -> dict[str, Any]:
        fake.photos[key]["class_id"] = (await request.json())["class_id"]
        fake.photos[key] = fake.photos.pop(key)
        return fake.photos[key]

    @app.delete("/api/photos/{key}", status_code=204)
    async def remove_photo(key: str) -> None:
        del fake.photos[key]

    @app.get("/api/trainings")
    async def trainings() -> dict[str, Any]:
        return {"trainings": fake.trainings}

    @app.post("/api/trainings", status_code=202)
    async def train() -> dict[str, Any]:
        fake.events.clear()
        fake.trainings.insert(
            0,
            {
                "id": fake.id(),
                "state": "waiting",
                "created": NOW,
                "started": None,
                "ended": None,
                "message": "",
            },
        )
        return fake.trainings[0]

    @app.delete("/api/trainings/{key}", status_code=202)
    async def cancel(key: str) -> dict[str, Any]:
        assert key == fake.trainings[0]["id"]
        fake.add_event("end", state="cancelled", message="")
        return fake.trainings[0]

    @app.get("/api/trainings/{key}/events")
    async def events(key: str, request: Request) -> Response:
        assert key == fake.trainings[0]["id"]

        async def stream() -> AsyncIterator[str]:
            number = int(request.headers.get("last-event-id", 0))
            while not await request.is_disconnected():
                for event in fake.events[number:]:
                    number += 1
                    yield f"id: {number}\nevent: {event['kind']}\ndata: {json.dumps(event['data'])}\n\n"
                    if event["kind"] == "end":
                        return
                await asyncio.sleep(0.02)

        return StreamingResponse(stream(), media_type="text/event-stream")

    @app.post("/api/predictions")
    async def predict(request: Request) -> Any:
        await request.body()
        return fake.answer

    @app.get("/api/versions")
    async def versions() -> dict[str, Any]:
        return {"versions": fake.versions}

    @app.post("/api/versions", status_code=201)
    async def upload(request: Request) -> Any:
        if not (await request.body()).startswith(b"good"):
            return failure(
                400,
                "bad_request",
                "This is not an update file.",
                "Choose a .safetensors file that filmtransfer wrote.",
            )
        return fake.publish(None, None, source="uploaded")

    @app.put("/api/versions/current")
    async def use(request: Request) -> dict[str, Any]:
        number = (await request.json())["number"]
        for version in fake.versions:
            version["current"] = version["number"] == number
        return next(v for v in fake.versions if v["current"])

    @app.get("/api/versions/{number}/check")
    async def check(number: int) -> Any:
        if number not in fake.checks:
            fake.assess(number, {})
        return fake.checks[number]

    @app.get("/api/versions/{number}/file")
    async def download(number: int) -> Response:
        assert number in {version["number"] for version in fake.versions}
        return Response(b"good update", media_type="application/octet-stream")

    @app.delete("/api/versions/{number}", status_code=204)
    async def remove_version(number: int) -> None:
        fake.versions[:] = [v for v in fake.versions if v["number"] != number]

    return app


class Running:
    """The fake service on its own port; it can be stopped and started again on the same port."""

    def __init__(self, fake: Fake, port: int = 0) -> None:
        self.fake, self.port = fake, port
        self.start()

    def start(self) -> None:
        config = uvicorn.Config(
            application(self.fake),
            host="127.0.0.1",
            port=self.port,
            log_level="critical",
            timeout_graceful_shutdown=1,
            ws="none",
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not self.server.started:
            self.thread.join(0.01)
        self.port = self.server.servers[0].sockets[0].getsockname()[1]

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"
