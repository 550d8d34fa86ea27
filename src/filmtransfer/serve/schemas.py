"""The request and response models of the API, from which /openapi.json is generated."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Annotated, Literal

from fastapi import Path
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from .download_types import FileKind, file_names
from .responses import ErrorResponse
from .settings import MAX_STEPS, MIN_VERSIONS
from .store import JsonObject, Quota, Version
from .store.values import clean_name
from .summary import accuracy_fields, assessment_fields

MAX_NUMBER = 2**31 - 1

Id = Annotated[str, Path(description="An id that the API returned; any other is 404.")]
Number = Annotated[int, Path(ge=1, le=MAX_NUMBER)]
DISPLAY_NAME = Field(
    max_length=400,  # before surrounding blanks are removed
    description="1 to 100 printable characters.",
    json_schema_extra={"minLength": 1},
)
Count = Annotated[int, Field(ge=0, le=2**53, strict=True)]
Steps = Annotated[int, Field(ge=0, le=MAX_STEPS, strict=True, description="0: without fine-tuning.")]


def checked_name(kind: str) -> AfterValidator:
    """Return the check of a name: the store's, so that whatever is wrong with a name has the same status."""
    return AfterValidator(partial(clean_name, kind))


class RequestModel(BaseModel):
    """A request; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class ResponseModel(BaseModel):
    """A response; it can be built from a record of the store."""

    model_config = ConfigDict(from_attributes=True)


class HealthPublic(BaseModel):
    """The state of the service."""

    status: Literal["ok"]
    version: str
    backbone: str


class ReadinessChecks(BaseModel):
    """What this process needs to serve requests, and whether it has it."""

    store: bool = Field(description="The database and the objects respond and can be written.")
    space: bool = Field(description="The disks have room for another photo; ready without it, for deletions.")
    engine: bool = Field(description="The backbone classifies images.")
    workers: bool = Field(description="A worker trains, or could be started.")
    running: bool = Field(description="The service is not ending.")


class ReadinessPublic(BaseModel):
    """The service is ready."""

    status: Literal["ready"]
    checks: ReadinessChecks


class NotReadyResponse(ErrorResponse):
    """The service is not ready: the error, and the checks."""

    checks: ReadinessChecks


# Users


class QuotaPublic(ResponseModel):
    """A quota, or how much of it is used."""

    classes: Count
    photos: Count
    bytes: Count
    versions: Count


class QuotaUpdate(RequestModel):
    """Changes of a quota; a field that is missing does not change."""

    classes: Count | None = None
    photos: Count | None = None
    bytes: Count | None = None
    versions: Annotated[Count, Field(ge=MIN_VERSIONS)] | None = None

    def apply(self, quota: Quota) -> Quota:
        """Return the changed quota."""
        return replace(quota, **self.model_dump(exclude_none=True))


class UserCreate(RequestModel):
    """A new user."""

    name: Annotated[str, DISPLAY_NAME, checked_name("user")]
    quota: QuotaUpdate | None = None


class UserPublic(ResponseModel):
    """A user, as the admin sees it."""

    id: str
    name: str
    created: datetime
    quota: QuotaPublic


class UserCreated(UserPublic):
    """A new user with its token, which is shown once."""

    token: str


class UserDetail(UserPublic):
    """A user, and how much it stores."""

    used: QuotaPublic


class UsersPublic(BaseModel):
    """All users."""

    users: list[UserPublic]


class TokenPublic(BaseModel):
    """A new token."""

    token: str


# Projects


class ProjectCreate(RequestModel):
    """The name of a project."""

    name: Annotated[str, DISPLAY_NAME, checked_name("project")]


class ProjectPublic(ResponseModel):
    """A project: the numbers of its classes and photos, and that of its current version."""

    id: str
    name: str
    created: datetime
    classes: int
    photos: int
    current: int | None


class ProjectsPublic(BaseModel):
    """All projects of a user, the oldest first."""

    projects: list[ProjectPublic]


# Classes and photos


class ClassCreate(RequestModel):
    """The name of a class."""

    name: Annotated[str, DISPLAY_NAME, checked_name("class")]


class ClassPublic(ResponseModel):
    """A class, and the number of its photos."""

    id: str
    name: str
    photos: int


class ClassesPublic(BaseModel):
    """All classes of a project."""

    classes: list[ClassPublic]


class PhotoPublic(ResponseModel):
    """A photo, without its bytes."""

    id: str
    class_id: str
    bytes: int
    media_type: str
    created: datetime


class PhotosPublic(BaseModel):
    """Photos of a project."""

    photos: list[PhotoPublic]


class PhotoUpdate(RequestModel):
    """The class to which a photo is moved."""

    class_id: str


# Trainings


class TrainingCreate(RequestModel):
    """The options of a training."""

    steps: Steps | None = None


class TrainingPublic(ResponseModel):
    """A training and its state."""

    id: str
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    created: datetime
    started: datetime | None
    ended: datetime | None
    message: str


class TrainingsPublic(BaseModel):
    """The trainings of a project."""

    trainings: list[TrainingPublic]


# Versions

SameFigure = Annotated[float | None, Field(description="The figure of ``estimate``.")]


class EstimatePublic(BaseModel):
    """The estimated accuracy of a classifier: the one that its update file stores and every command shows."""

    accuracy: float
    percentage: str = Field(
        description="The accuracy with as many digits as the photos support, such as 62%."
    )
    low: float = Field(description="The lower end of the 95% interval.")
    high: float
    images: int = Field(description="The number of photos that it was measured on, by leave-one-out.")
    unseen: bool = Field(description="Whether fine-tuning had not seen these photos; if it had, expect less.")
    text: str = Field(description="All of this in words.")


class VersionPublic(BaseModel):
    """A classifier; ``estimate`` is null where no class has a photo to spare for it."""

    number: int
    created: datetime
    bytes: int
    source: str
    current: bool
    stage: str | None
    classes: dict[str, int]
    class_ids: dict[str, str] = Field(description="The ids of the classes it was trained on, by name.")
    estimate: EstimatePublic | None
    accuracy: SameFigure
    low: SameFigure
    high: SameFigure
    files: dict[FileKind, str] = Field(description="The names of the files that can be downloaded.")

    @classmethod
    def of(cls, version: Version) -> VersionPublic:
        """Return the public part of a version's record and summary."""
        summary = {
            "stage": None,
            "classes": {},
            "class_ids": {},
            **version.summary,
            "files": file_names(version.number),
        }
        return cls.model_validate(summary | accuracy_fields(version.summary) | vars(version))


class VersionsPublic(BaseModel):
    """The versions of a project."""

    versions: list[VersionPublic]


class CurrentVersionUpdate(RequestModel):
    """The version to make current."""

    number: Annotated[int, Field(ge=1, le=MAX_NUMBER, strict=True)]


class HeldOutPrediction(BaseModel):
    """The leave-one-out prediction of a training photo: its class, the predicted class and its probability."""

    id: str
    truth: str
    said: str
    p: float


class VersionAssessment(BaseModel):
    """The leave-one-out predictions of a version for its training photos, also those that fine-tuning has seen.

    ``estimate`` counts only those that it has not seen, if there are enough.
    """

    classes: list[str]
    confusion: list[list[int]] = Field(description="The number of photos by true class and predicted class.")
    images: int = Field(description="The number of photos in the confusion matrix.")
    unseen_images: int = Field(description="How many of them fine-tuning had not seen.")
    text: str = Field(description="What the confusion matrix was measured on, in words.")
    estimate: EstimatePublic | None
    accuracy: SameFigure
    low: SameFigure
    high: SameFigure
    photos: list[HeldOutPrediction]

    @classmethod
    def of(cls, summary: JsonObject) -> VersionAssessment:
        """Return the assessment in the summary of a version that was trained here."""
        fields = accuracy_fields(summary) | assessment_fields(summary)
        return cls.model_validate(summary | fields | {"classes": list(summary["classes"])})


class CurrentUserPublic(BaseModel):
    """The authenticated user, and the state of one project; ``used`` is the sum over all projects."""

    id: str
    name: str
    quota: QuotaPublic
    used: QuotaPublic
    project: str
    current: VersionPublic | None
    training: TrainingPublic | None
    backbone: str
    image_size: int


class ClassProbability(BaseModel):
    """A class and its probability."""

    name: str = Field(serialization_alias="class")
    p: float


class PredictionPublic(BaseModel):
    """A prediction; ``class`` is null when the image is out-of-distribution (none of the classes)."""

    version: int
    name: str | None = Field(serialization_alias="class")
    unknown: bool
    known: float = Field(
        description="The score that decides whether it is unknown: how much the image resembles the training photos, about 0 "
        "for a typical one and negative below that. 1 in a version without a threshold."
    )
    probabilities: list[ClassProbability]
