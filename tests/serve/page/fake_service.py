"""A fake service for states that are hard to reach with a real one: it sends the events of a training as the test tells it,
and fails on request."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from fastapi import Depends, FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from PIL import Image

from .fake_state import TOKEN, Fake, FakeProject, Json, failure

PAGE = Path(__file__).parents[3] / "src/filmtransfer/serve/page"
CSP = "default-src 'self'; img-src 'self' blob: data:; media-src blob:"
QUOTA = {"classes": 100, "photos": 2000, "bytes": 2_000_000_000, "versions": 20}


class FakeError(Exception):
    """A response that ends a request."""

    def __init__(self, response: JSONResponse) -> None:
        self.response = response


def fake_of(request: Request) -> Fake:
    return request.app.state.fake


def project_of(request: Request, project: str | None = None) -> FakeProject:
    """Return the project of the parameter; without one, the oldest."""
    fake = fake_of(request)
    if project is None:
        return fake.projects[0]
    return find_project(fake, project)


def find_project(fake: Fake, key: str) -> FakeProject:
    for project in fake.projects:
        if project.id == key:
            return project
    raise FakeError(failure(404, "not_found", "There is no such project.", "It may have been deleted."))


State = Annotated[Fake, Depends(fake_of)]
Scope = Annotated[FakeProject, Depends(project_of)]


def application(fake: Fake) -> FastAPI:
    app = FastAPI()
    app.state.fake = fake

    @app.middleware("http")
    async def guard(request: Request, proceed: Any) -> Response:
        path, key = request.url.path, f"{request.method} {request.url.path}"
        fake.seen.append(key)
        fake.scopes.setdefault(key, set()).add(request.query_params.get("project", ""))
        if fake.failures.get(key):
            return fake.failures[key].pop(0)
        token = "" if fake.deleted else f"Bearer {TOKEN}"
        if path.startswith("/api/") and request.headers.get("authorization") != token:
            return failure(
                401, "bad_token", "This token is unknown.", "Ask for a new one: fit user token ID."
            )
        response: Response = await proceed(request)
        response.headers["Content-Security-Policy"] = CSP
        return response

    @app.exception_handler(FakeError)
    async def fail(_: Request, error: FakeError) -> JSONResponse:
        return error.response

    @app.get("/")
    async def index() -> Response:
        return FileResponse(PAGE / "index.html")

    @app.get("/assets/{name}")
    async def asset(name: str) -> Response:
        return FileResponse(PAGE / name)

    @app.get("/healthz")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    for add in (add_user, add_projects, add_classes, add_photos, add_trainings, add_versions):
        add(app)
    return app


def add_user(app: FastAPI) -> None:
    @app.get("/api/me")
    async def me(fake: State, _: Scope) -> Json:
        return {
            "id": "u",
            "name": "me",
            "quota": QUOTA,
            "used": fake.used(),
            "current": None,
            "training": None,
            "backbone": "fake",
            "image_size": 224,
        }

    @app.delete("/api/me", status_code=204)
    async def delete_account(fake: State) -> None:
        fake.projects.clear()
        fake.deleted = True

    @app.delete("/api/me/data", status_code=204)
    async def start_over(fake: State) -> None:
        fake.start_over()


def add_projects(app: FastAPI) -> None:
    @app.get("/api/projects")
    async def projects(fake: State) -> Json:
        return {"projects": [project.public() for project in fake.projects]}

    @app.post("/api/projects", status_code=201)
    async def add_project(fake: State, request: Request) -> Json:
        return fake.add_project((await request.json())["name"]).public()

    @app.post("/api/projects/sample", status_code=201)
    async def add_sample(fake: State) -> Json:
        return fake.add_sample().public()

    @app.patch("/api/projects/{key}")
    async def rename_project(fake: State, key: str, request: Request) -> Json:
        project = find_project(fake, key)
        project.name = (await request.json())["name"]
        return project.public()

    @app.delete("/api/projects/{key}", status_code=204)
    async def remove_project(fake: State, key: str) -> None:
        fake.remove_project(find_project(fake, key))


def add_classes(app: FastAPI) -> None:
    def row(project: FakeProject, key: str) -> Json:
        photos = sum(p["class_id"] == key for p in project.photos.values())
        return {**project.classes[key], "photos": photos}

    def check_name(project: FakeProject, name: str) -> None:
        if any(other["name"] == name for other in project.classes.values()):
            raise FakeError(
                failure(409, "conflict", f"There is a class called '{name}' already.", "Choose another name.")
            )

    @app.get("/api/classes")
    async def classes(project: Scope) -> Json:
        return {"classes": [row(project, key) for key in project.classes]}

    @app.post("/api/classes", status_code=201)
    async def add_class(project: Scope, request: Request) -> Json:
        name = (await request.json())["name"]
        check_name(project, name)
        return row(project, project.add_class(name))

    @app.patch("/api/classes/{key}")
    async def rename(project: Scope, key: str, request: Request) -> Json:
        name = (await request.json())["name"]
        check_name(project, name)
        project.classes[key]["name"] = name
        return row(project, key)

    @app.delete("/api/classes/{key}", status_code=204)
    async def remove_class(project: Scope, key: str) -> None:
        del project.classes[key]
        for photo in [p for p in project.photos.values() if p["class_id"] == key]:
            del project.photos[photo["id"]]

    @app.post("/api/classes/{key}/photos")
    async def add_photo(project: Scope, key: str, request: Request) -> Any:
        data = await request.body()
        check_image(data)
        if key not in project.classes:
            raise FakeError(failure(404, "not_found", "There is no such class."))
        return JSONResponse(project.keep(key, data), 201)


def check_image(data: bytes) -> None:
    try:
        Image.open(io.BytesIO(data)).verify()
    except OSError:
        raise FakeError(
            failure(
                400, "bad_request", "This is not an image that can be read.", "Use JPEG, PNG, WebP or HEIC."
            )
        ) from None


def add_photos(app: FastAPI) -> None:
    @app.get("/api/photos")
    async def photos(project: Scope) -> Json:
        return {"photos": list(project.photos.values())}

    @app.get("/api/photos/{key}")
    @app.get("/api/photos/{key}/thumbnail")
    async def photo(project: Scope, key: str) -> Response:
        if key not in project.photos:
            raise FakeError(failure(404, "not_found", "There is no such photo."))
        return Response(project.content[key], media_type="image/jpeg")

    @app.patch("/api/photos/{key}")
    async def move(project: Scope, key: str, request: Request) -> Json:
        project.photos[key]["class_id"] = (await request.json())["class_id"]
        project.photos[key] = project.photos.pop(key)
        return project.photos[key]

    @app.delete("/api/photos/{key}", status_code=204)
    async def remove_photo(project: Scope, key: str) -> None:
        del project.photos[key]


def add_trainings(app: FastAPI) -> None:
    @app.get("/api/trainings")
    async def trainings(project: Scope) -> Json:
        return {"trainings": project.trainings}

    @app.post("/api/trainings", status_code=202)
    async def train(project: Scope) -> Json:
        return project.add_training()

    @app.delete("/api/trainings/{key}", status_code=202)
    async def cancel(project: Scope, key: str) -> Json:
        assert key == project.trainings[0]["id"]
        project.add_event("end", state="cancelled", message="")
        return project.trainings[0]

    @app.get("/api/trainings/{key}/events")
    async def events(project: Scope, key: str, request: Request) -> Response:
        assert key == project.trainings[0]["id"]

        async def stream() -> AsyncIterator[str]:
            number = int(request.headers.get("last-event-id", 0))
            while not await request.is_disconnected():
                for event in project.events[number:]:
                    number += 1
                    yield f"id: {number}\nevent: {event['kind']}\ndata: {json.dumps(event['data'])}\n\n"
                    if event["kind"] == "end":
                        return
                await asyncio.sleep(0.02)

        return StreamingResponse(stream(), media_type="text/event-stream")


def add_versions(app: FastAPI) -> None:
    @app.post("/api/predictions")
    async def predict(fake: State, project: Scope, version: int, request: Request) -> Any:
        check_image(await request.body())
        if version not in {each["number"] for each in project.versions}:
            raise FakeError(failure(404, "not_found", f"There is no version {version}."))
        assert fake.answer is not None
        answer = fake.answer.get(version, fake.answer)  # one for all versions, or one for each
        return {**answer, "version": version}

    @app.get("/api/versions")
    async def versions(project: Scope) -> Json:
        return {"versions": project.versions}

    @app.post("/api/versions", status_code=201)
    async def upload(project: Scope, request: Request) -> Any:
        if not (await request.body()).startswith(b"good"):
            hint = "Choose a .safetensors file that filmtransfer wrote."
            return failure(400, "bad_request", "This is not an update file.", hint)
        return project.publish(None, None, source="uploaded")

    @app.put("/api/versions/current")
    async def use(project: Scope, request: Request) -> Json:
        number = (await request.json())["number"]
        for version in project.versions:
            version["current"] = version["number"] == number
        return next(v for v in project.versions if v["current"])

    @app.get("/api/versions/{number}/check")
    async def check(project: Scope, number: int) -> Json:
        if number not in project.checks:
            project.assess(number, {})
        return project.checks[number]

    @app.get("/api/versions/{number}/{kind}")
    async def download(fake: State, project: Scope, number: int, kind: str) -> Response:
        if number not in {version["number"] for version in project.versions}:
            raise FakeError(failure(404, "not_found", f"There is no version {number}."))
        while kind in fake.delayed:
            await asyncio.sleep(0.02)
        return Response(f"good {kind}", media_type="application/octet-stream")

    @app.delete("/api/versions/{number}", status_code=204)
    async def remove_version(project: Scope, number: int) -> None:
        project.versions[:] = [v for v in project.versions if v["number"] != number]


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
