"""The versions of a user's classifier."""

from __future__ import annotations

from anyio import to_thread
from fastapi import APIRouter, Request, Response

from ..deps import CurrentUser, JsonOnly, Service, ServiceDep, StoreDep, content_type
from ..errors import ApiError
from ..schemas import (
    GUARDED,
    NO_ACCURACY,
    CurrentVersionUpdate,
    Number,
    VersionAssessment,
    VersionPublic,
    VersionsPublic,
    binary,
    errors,
)
from ..store import NotFoundError, Version

router = APIRouter(prefix="/api/versions", tags=["versions"], responses=errors(*GUARDED))

MEDIA_TYPE = "application/octet-stream"
FILE = binary(MEDIA_TYPE)


@router.get("")
def list_versions(user: CurrentUser, store: StoreDep) -> VersionsPublic:
    """List your classifiers, the newest first."""
    return VersionsPublic(versions=[VersionPublic.of(one) for one in store.versions.all(user.id)])


@router.post(
    "",
    status_code=201,
    responses=errors(400, 409, 415, 507),
    openapi_extra={"requestBody": {"required": True, "description": "An update file.", **FILE[200]}},
)
async def upload_version(request: Request, user: CurrentUser, service: ServiceDep) -> VersionPublic:
    """Upload an update file of 'fit train' or of this service; it becomes the current version."""
    if content_type(request) != MEDIA_TYPE:
        raise ApiError(
            415, "bad_type", "The body is not an update file.", f"Send 'Content-Type: {MEDIA_TYPE}'."
        )
    content = await request.body()
    return VersionPublic.of(await to_thread.run_sync(_publish, service, user.id, content))


def _publish(service: Service, user: str, content: bytes) -> Version:
    update = service.engine.check(content, service.settings.max_image_size)
    classes = {str(name): count for name, count in zip(update.classes, update.counts, strict=True)}
    return service.store.versions.publish(user, content, "uploaded", {"classes": classes})


@router.put("/current", responses=errors(404, 415), dependencies=[JsonOnly])
def choose_version(change: CurrentVersionUpdate, user: CurrentUser, store: StoreDep) -> VersionPublic:
    """Make another version the current one."""
    return VersionPublic.of(store.versions.make_current(user.id, change.number))


@router.get("/{number}/file", response_class=Response, responses={**FILE, **errors(404)})
def download_version(number: Number, user: CurrentUser, store: StoreDep) -> Response:
    """Return the update file, which 'fit predict' takes."""
    return Response(
        store.versions.content(user.id, number),
        media_type=MEDIA_TYPE,
        headers={"Content-Disposition": f'attachment; filename="classifier-{number}.safetensors"'},
    )


@router.get("/{number}/check", responses=errors(404))
def assess_version(number: Number, user: CurrentUser, store: StoreDep) -> VersionAssessment:
    """Return the confusion matrix and the leave-one-out predictions of the training photos."""
    summary = store.versions.get(user.id, number).summary
    if "confusion" not in summary:
        raise NotFoundError(
            f"There is no assessment of version {number}.", "Only versions that were trained here have one."
        )
    return VersionAssessment.model_validate({**NO_ACCURACY, **summary, "classes": list(summary["classes"])})


@router.delete("/{number}", status_code=204, responses=errors(404, 409))
def delete_version(number: Number, user: CurrentUser, store: StoreDep) -> Response:
    """Delete a version that is not the current one."""
    store.versions.delete(user.id, number)
    return Response(status_code=204)
