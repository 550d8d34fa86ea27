"""What goes in and out as JSON; /openapi.json is made from these."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field

from . import store as rows

MAX_NUMBER = 2**31 - 1

Id = Annotated[str, Path(description="As it was given; one that is not known is 404.")]
Number = Annotated[int, Path(ge=1, le=MAX_NUMBER)]
Name = Annotated[str, Field(min_length=1, max_length=400, description="1 to 100 printable characters.")]
Count = Annotated[int, Field(ge=0, le=2**53, strict=True)]


class Said(BaseModel):
    """What a visitor sends: nothing that is not known."""

    model_config = ConfigDict(extra="forbid")


class Given(BaseModel):
    """What is answered; made from the store's rows."""

    model_config = ConfigDict(from_attributes=True)


class ErrorDetail(BaseModel):
    code: str
    message: str
    hint: str


class Error(BaseModel):
    """Every answer from 400 on."""

    error: ErrorDetail


class Health(BaseModel):
    status: Literal["ok"]
    version: str
    backbone: str


# Users


class Quota(Given):
    classes: Count
    photos: Count
    bytes: Count
    versions: Count


class QuotaWish(Said):
    """What is left out stays as it is."""

    classes: Count | None = None
    photos: Count | None = None
    bytes: Count | None = None
    versions: Count | None = None

    def of(self, quota: rows.Quota) -> rows.Quota:
        wishes = {name: value for name, value in self.model_dump().items() if value is not None}
        return rows.Quota(**{**_quota(quota), **wishes})


def _quota(quota: rows.Quota) -> dict[str, int]:
    return {name: getattr(quota, name) for name in ("classes", "photos", "bytes", "versions")}


class NewUser(Said):
    name: Name
    quota: QuotaWish | None = None


class User(Given):
    id: str
    name: str
    created: datetime
    quota: Quota


class UserMade(Given):
    id: str
    name: str
    created: datetime
    quota: Quota
    token: str


class UserFull(User):
    used: Quota


class Users(BaseModel):
    users: list[User]


class Token(BaseModel):
    token: str


# Photos


class NewClass(Said):
    name: Name


class Class(Given):
    id: str
    name: str
    photos: int


class Classes(BaseModel):
    classes: list[Class]


class Photo(Given):
    id: str
    class_id: str
    bytes: int
    media_type: str
    created: datetime


class Photos(BaseModel):
    photos: list[Photo]


class Move(Said):
    class_id: str


# Trainings


class NewTraining(Said):
    steps: Annotated[int, Field(ge=0, le=1000, strict=True, description="0: without fine-tuning.")] | None = (
        None
    )


class Training(Given):
    id: str
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    created: datetime
    started: datetime | None
    ended: datetime | None
    message: str


class Trainings(BaseModel):
    trainings: list[Training]


# Versions


class Version(BaseModel):
    """A classifier; what is known of its accuracy comes from its own training."""

    number: int
    created: datetime
    bytes: int
    source: str
    current: bool
    stage: str | None
    classes: dict[str, int]
    accuracy: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, row: rows.Version) -> Version:
        told: dict[str, Any] = {name: row.summary.get(name) for name in ("stage", "accuracy", "low", "high")}
        told |= {name: getattr(row, name) for name in ("number", "created", "bytes", "source", "current")}
        return cls(**told, classes=row.summary.get("classes", {}))


class Versions(BaseModel):
    versions: list[Version]


class Choice(Said):
    number: Annotated[int, Field(ge=1, le=MAX_NUMBER, strict=True)]


class Judged(BaseModel):
    """A training photo, as a classifier built without it sees it."""

    id: str
    truth: str
    said: str
    p: float


class Check(BaseModel):
    classes: list[str]
    confusion: list[list[int]]
    accuracy: float | None
    low: float | None
    high: float | None
    photos: list[Judged]


class Me(BaseModel):
    id: str
    name: str
    quota: Quota
    used: Quota
    current: Version | None
    training: Training | None
    backbone: str
    image_size: int


class ClassChance(BaseModel):
    name: str = Field(serialization_alias="class")
    p: float


class Prediction(BaseModel):
    """``class`` is null when the image shows none of the classes."""

    version: int
    name: str | None = Field(serialization_alias="class")
    unknown: bool
    known: float
    probabilities: list[ClassChance]


# Errors in /openapi.json


Responses = dict[int | str, dict[str, Any]]


def errors(*statuses: int) -> Responses:
    """The errors that a route may answer with, beside those that all may."""
    meanings = {
        400: "It cannot be read or used as it is.",
        401: "No token, or an unknown one.",
        403: "The wrong kind of token.",
        404: "It is not there.",
        408: "The body did not come in time.",
        409: "It does not go together with what is there.",
        413: "Too large.",
        415: "The wrong content type.",
        422: "A field is missing or wrong.",
        429: "Too many requests; see Retry-After.",
        503: "Something that is needed is away or busy; see Retry-After.",
        507: "The quota or the storage is full.",
    }
    return {
        status: {"model": Error, "description": meanings[status]}
        for status in sorted({*statuses, 408, 413, 429})
    }


GUARDED = (400, 401, 403, 404, 422, 503)
