"""What the fake service stores, all in memory, and its next failures."""

from __future__ import annotations

import io
import itertools
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from fastapi.responses import JSONResponse
from PIL import Image, ImageDraw

from filmtransfer.serve.download_types import file_names

NOW = "2026-11-16T12:00:00+00:00"
TOKEN = "a-token"
SAMPLE_CLASSES = ("apple", "clock", "fish")
Json = dict[str, Any]


def failure(status: int, code: str, message: str, hint: str = "", **headers: str) -> JSONResponse:
    return JSONResponse(
        {"error": {"code": code, "message": message, "hint": hint}},
        status,
        headers={k.replace("_", "-"): v for k, v in headers.items()},
    )


def encode(image: Image.Image) -> bytes:
    data = io.BytesIO()
    image.save(data, "JPEG")
    return data.getvalue()


class Clock:
    """Ids and times, each later than the one before."""

    def __init__(self) -> None:
        self.ids, self.seconds = itertools.count(), itertools.count()

    def id(self) -> str:
        return f"{next(self.ids):016x}"

    def now(self) -> str:
        return (datetime.fromisoformat(NOW) + timedelta(seconds=next(self.seconds))).isoformat()


@dataclass
class FakeProject:
    """A project: its classes, photos, versions and trainings."""

    clock: Clock
    name: str
    classes: dict[str, Json] = field(default_factory=dict)
    photos: dict[str, Json] = field(default_factory=dict)
    content: dict[str, bytes] = field(default_factory=dict)
    versions: list[Json] = field(default_factory=list)
    checks: dict[int, Json] = field(default_factory=dict)
    trainings: list[Json] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.id, self.created = self.clock.id(), self.clock.now()

    def public(self) -> Json:
        current = next((v["number"] for v in self.versions if v["current"]), None)
        counts = {"classes": len(self.classes), "photos": len(self.photos)}
        return {"id": self.id, "name": self.name, "created": self.created, **counts, "current": current}

    def add_class(self, name: str, images: list[Image.Image] | tuple[()] = ()) -> str:
        key = self.clock.id()
        self.classes[key] = {"id": key, "name": name}
        for image in images:
            self.add_photo(key, image)
        return key

    def add_photo(self, class_id: str, image: Image.Image) -> str:
        return str(self.keep(class_id, encode(image))["id"])

    def keep(self, class_id: str, data: bytes) -> Json:
        key = self.clock.id()
        self.content[key] = data
        self.photos[key] = {
            "id": key,
            "class_id": class_id,
            "bytes": len(data),
            "media_type": "image/jpeg",
            "created": self.clock.now(),
        }
        return self.photos[key]

    def counts(self) -> dict[str, int]:
        return {
            row["name"]: sum(p["class_id"] == key for p in self.photos.values())
            for key, row in self.classes.items()
        }

    def estimate(self, stage: str | None, accuracy: float) -> Json:
        """Return an estimate: of all photos for a first classifier, of ten that were held out for a tuned one."""
        images = 10 if stage == "tuned" else len(self.photos)
        low, high = max(0.0, accuracy - 0.1), min(1.0, accuracy + 0.06)
        basis = "that fine-tuning had not seen" if stage == "tuned" else "each classified without itself"
        figures = f"{accuracy:.0%} (95% interval {low:.0%} to {high:.0%})"
        text = f"Estimated accuracy on new photos {figures}, from {images} photos{' ' if stage == 'tuned' else ', '}{basis}."
        return {
            "accuracy": accuracy,
            "percentage": f"{accuracy:.0%}",
            "low": low,
            "high": high,
            "images": images,
            "unseen": True,
            "text": text,
        }

    def publish(self, stage: str | None, accuracy: float | None, source: str = "trained") -> Json:
        for version in self.versions:
            version["current"] = False
        number = max((v["number"] for v in self.versions), default=0) + 1
        version = {
            "number": number, "created": self.clock.now(), "bytes": 131_072 + number, "source": source, "current": True, "stage": stage,
            "classes": self.counts() if source == "trained" else {"cup": 5, "plate": 5},
            "class_ids": {row["name"]: key for key, row in self.classes.items()} if source == "trained" else {},
            "estimate": None if accuracy is None else self.estimate(stage, accuracy),
            "files": file_names(number),
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
        text = f"Measured on {len(rows)} of your photos."
        self.checks[number] = {
            "classes": names, "confusion": table, "photos": rows,
            "images": len(rows), "unseen_images": len(rows), "text": text,
        }  # fmt: skip

    def add_training(self, state: str = "waiting") -> Json:
        self.events.clear()
        created = self.clock.now()
        self.trainings.insert(
            0,
            {
                "id": self.clock.id(),
                "state": state,
                "created": created,
                "started": None,
                "ended": None,
                "message": "",
            },
        )
        return self.trainings[0]

    def add_event(self, kind: str, **data: Any) -> None:
        """Add an event of the training; wait for the page to request one."""
        deadline = time.monotonic() + 20
        while not self.trainings and time.monotonic() < deadline:
            time.sleep(0.02)
        if kind != "end" and self.trainings[0]["state"] == "waiting":
            self.trainings[0]["state"] = "running"
        if kind == "end":
            self.trainings[0].update(data)
        self.events.append({"kind": kind, "data": data})


class Fake:
    """The state of the fake service; the attributes of a project are those of the oldest one."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.clock = Clock()
        self.projects: list[FakeProject] = []
        self.answer: Json | None = None
        self.failures: dict[str, list[JSONResponse]] = {}  # "POST /api/trainings" → next responses
        self.seen: list[str] = []  # "POST /api/trainings", without parameters
        self.scopes: dict[str, set[str]] = {}  # the same → the values of the parameter "project"
        self.delayed: set[str] = (
            set()
        )  # kinds of downloads that are not made before the test removes them here
        self.deleted = False
        self.add_project("My classifier")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "projects":
            raise AttributeError(name)
        return getattr(self.projects[0], name)

    def add_project(self, name: str) -> FakeProject:
        self.projects.append(FakeProject(self.clock, name))
        return self.projects[-1]

    def add_sample(self) -> FakeProject:
        """Add a project with a few drawings."""
        project = self.add_project("Sample drawings")
        for number, name in enumerate(SAMPLE_CLASSES):
            drawings = []
            for i in range(4):
                drawing = Image.new("RGB", (64, 64), "white")
                ImageDraw.Draw(drawing).regular_polygon((32, 32, 16 + 3 * i), number + 3, fill="black")
                drawings.append(drawing)
            project.add_class(name, drawings)
        return project

    def start_over(self) -> None:
        self.projects.clear()
        self.add_project("My classifier")

    def remove_project(self, project: FakeProject) -> None:
        self.projects.remove(project)
        if not self.projects:
            self.add_project("My classifier")

    def used(self) -> dict[str, int]:
        """Return how much all projects store."""
        items = [item for p in self.projects for item in (*p.photos.values(), *p.versions)]
        return {
            "classes": sum(len(p.classes) for p in self.projects),
            "photos": sum(len(p.photos) for p in self.projects),
            "bytes": sum(item["bytes"] for item in items),
            "versions": sum(len(p.versions) for p in self.projects),
        }
