"""The records that the store returns: plain dataclasses without a connection to the database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NewType

JsonObject = dict[str, Any]
Source = Literal["trained", "uploaded"]
TrainingState = Literal["waiting", "running", "done", "failed", "cancelled"]
ProjectId = NewType(
    "ProjectId", str
)  # of a project that the store has found: the type checker refuses a client's text

DEFAULT_PROJECT = "My classifier"  # the name of the project that a user has at first


@dataclass(frozen=True)
class Quota:
    """The most that one user may store in all projects; bytes are those of photos and versions together."""

    classes: int = 100
    photos: int = 2000
    bytes: int = 2_000_000_000
    versions: int = 20


@dataclass(frozen=True)
class Usage:
    """How much one user stores, in the units of the quota."""

    classes: int
    photos: int
    bytes: int
    versions: int


@dataclass(frozen=True)
class User:
    """A user of the service."""

    id: str
    name: str
    created: datetime
    quota: Quota


@dataclass(frozen=True)
class Project:
    """A project of a user: the numbers of its classes and photos, and that of its current version."""

    id: ProjectId
    name: str
    created: datetime
    classes: int
    photos: int
    current: int | None


@dataclass(frozen=True)
class ImageClass:
    """A class of a project, and the number of its photos."""

    id: str
    name: str
    photos: int


@dataclass(frozen=True)
class Photo:
    """A photo of a class; the digest is the SHA-256 of the original bytes."""

    id: str
    class_id: str
    digest: str
    bytes: int
    media_type: str
    created: datetime


@dataclass(frozen=True)
class Version:
    """One update file of a project. Numbers count from 1, and a number is never used twice."""

    number: int
    created: datetime
    bytes: int
    digest: str
    source: Source
    summary: JsonObject
    current: bool


@dataclass(frozen=True)
class Training:
    """A training of a project: its state, its options, and the worker that runs it."""

    id: str
    project: ProjectId
    state: TrainingState
    options: JsonObject
    created: datetime
    started: datetime | None
    ended: datetime | None
    message: str
    worker: str | None


@dataclass(frozen=True)
class Event:
    """An event of a training; events are numbered from 1."""

    number: int
    kind: str
    data: JsonObject
