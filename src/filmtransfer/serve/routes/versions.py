"""The versions of a project's classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Depends, Request, Response

from ..deps import CurrentProject, CurrentUser, JsonOnly, Service, ServiceDep, StoreDep, content_type
from ..download_types import TYPES, FileKind
from ..errors import ApiError
from ..make_download import DownloadKind
from ..present_names import present_content
from ..responses import GUARDED, HTML, binary, errors
from ..schemas import CurrentVersionUpdate, Number, VersionAssessment, VersionPublic, VersionsPublic
from ..store import NotFoundError, ProjectId, Quota, Version
from ..summary import check_classes, summarise_update

router = APIRouter(prefix="/api/versions", tags=["versions"], responses=errors(*GUARDED))

MEDIA_TYPE = TYPES["file"].media_type
FILE = binary(MEDIA_TYPE)


@router.get("")
def list_versions(project: CurrentProject, store: StoreDep) -> VersionsPublic:
    """List the classifiers of a project, the newest first."""
    return VersionsPublic(versions=[VersionPublic.of(one) for one in store.versions.all(project)])


@router.post(
    "",
    status_code=201,
    responses=errors(400, 409, 415, 507),
    openapi_extra={"requestBody": {"required": True, "description": "An update file.", **FILE[200]}},
)
async def upload_version(
    request: Request, user: CurrentUser, project: CurrentProject, service: ServiceDep
) -> VersionPublic:
    """Upload an update file of 'fit train' or of this service; it becomes the current version."""
    if content_type(request) != MEDIA_TYPE:
        raise ApiError(
            415, "bad_type", "The body is not an update file.", f"Send 'Content-Type: {MEDIA_TYPE}'."
        )
    content = await request.body()
    return VersionPublic.of(await to_thread.run_sync(_publish, service, user.quota, project, content))


def _publish(service: Service, quota: Quota, project: ProjectId, content: bytes) -> Version:
    service.store.versions.check_room(project, len(content))  # before any work
    update = service.engine.check(
        content, service.settings.max_image_size, lambda update: check_classes(update, quota)
    )
    return service.store.versions.publish(project, content, "uploaded", summarise_update(update))


@router.put("/current", responses=errors(404, 415), dependencies=[JsonOnly])
def choose_version(change: CurrentVersionUpdate, project: CurrentProject, store: StoreDep) -> VersionPublic:
    """Make another version the current one."""
    return VersionPublic.of(store.versions.make_current(project, change.number))


@router.get("/{number}/file", response_class=Response, responses={**FILE, **errors(404)})
def download_version(number: Number, project: CurrentProject, store: StoreDep) -> Response:
    """Return the update file, which 'fit predict' takes, with the names that the classes have now."""
    return _attachment("file", number, present_content(store, project, number))


def _attachment(kind: FileKind, number: int, content: bytes) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{TYPES[kind].file_name(number)}"'}
    return Response(content, media_type=TYPES[kind].media_type, headers=headers)


@dataclass
class VersionDownload:
    """The request for a file that is made of a version; ``make`` returns the response."""

    number: Number
    request: Request
    user: CurrentUser
    project: CurrentProject
    service: ServiceDep

    async def make(self, kind: DownloadKind) -> Response:
        """Return the file, made now in a process of its own."""

        async def is_unwanted() -> bool:
            return self.service.stopping.is_set() or await self.request.is_disconnected()

        content = await self.service.downloads.make(
            kind, self.user.id, self.project, self.number, is_unwanted
        )
        return _attachment(kind, self.number, content)


DownloadDep = Annotated[VersionDownload, Depends()]


@router.get(
    "/{number}/onnx",
    response_class=Response,
    responses={**binary(TYPES["onnx"].media_type), **errors(404, 409)},
)
async def download_onnx(download: DownloadDep) -> Response:
    """Return the classifier as one ONNX file; it is made now, which takes some seconds."""
    return await download.make("onnx")


@router.get(
    "/{number}/web",
    response_class=Response,
    responses={**binary(TYPES["web"].media_type), **errors(404, 409)},
)
async def download_web(download: DownloadDep) -> Response:
    """Return a .zip file of a web page that classifies photos in the browser; it is made now, in some seconds."""
    return await download.make("web")


@router.get("/{number}/report", response_class=Response, responses={**HTML, **errors(404, 409)})
async def download_report(download: DownloadDep) -> Response:
    """Return the report of a version: one HTML page on its accuracy and its photos, as far as they are stored."""
    return await download.make("report")


@router.get("/{number}/check", responses=errors(404))
def assess_version(number: Number, project: CurrentProject, store: StoreDep) -> VersionAssessment:
    """Return the confusion matrix and the leave-one-out predictions of the training photos."""
    summary = store.versions.get(project, number).summary
    if "confusion" not in summary:
        raise NotFoundError(
            f"There is no assessment of version {number}.", "Only versions that were trained here have one."
        )
    return VersionAssessment.of(summary)


@router.delete("/{number}", status_code=204, responses=errors(404, 409))
def delete_version(number: Number, project: CurrentProject, store: StoreDep) -> Response:
    """Delete a version that is not the current one."""
    store.versions.delete(project, number)
    return Response(status_code=204)
