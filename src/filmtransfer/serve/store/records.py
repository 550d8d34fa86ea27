"""What the store hands out: plain records, nothing that leads back into the database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

Source = Literal["trained", "uploaded"]
State = Literal["waiting", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True)
class Quota:
    """How much one user may keep; the bytes are those of photos and versions together."""

    classes: int = 100
    photos: int = 2000
    bytes: int = 2_000_000_000
    versions: int = 20


@dataclass(frozen=True)
class Used:
    """How much one user keeps."""

    classes: int
    photos: int
    bytes: int
    versions: int


@dataclass(frozen=True)
class User:
    id: str
    name: str
    created: datetime
    quota: Quota


@dataclass(frozen=True)
class ClassRow:
    id: str
    name: str
    photos: int  # how many


@dataclass(frozen=True)
class Photo:
    id: str
    class_id: str
    digest: str  # SHA-256 of the original bytes
    bytes: int
    media_type: str
    created: datetime


@dataclass(frozen=True)
class Version:
    """One update file of a user: 1, 2, 3 …; a number is never given twice."""

    number: int
    created: datetime
    bytes: int
    digest: str
    source: Source
    summary: dict[str, Any]
    current: bool


@dataclass(frozen=True)
class Training:
    id: str
    user: str
    state: State
    options: dict[str, Any]
    created: datetime
    started: datetime | None
    ended: datetime | None
    message: str
    worker: str | None


@dataclass(frozen=True)
class Event:
    """What a training had to say, numbered 1, 2, …"""

    number: int
    kind: str
    data: dict[str, Any]
