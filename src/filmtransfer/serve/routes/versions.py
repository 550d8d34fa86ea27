"""Versions: the classifiers of a user, to look into, take home, bring back, and choose from."""

from __future__ import annotations

from anyio import to_thread
from fastapi import APIRouter, Depends, Request, Response

from ...errors import UpdateFileError
from .. import shapes
from ..auth import TheUser
from ..errors import Refusal
from ..service import Service, TheService, TheStore
from ..shapes import GUARDED, errors
from ..store import NotFoundError, Version
from .bodies import json_only

router = APIRouter(prefix="/api/versions", tags=["versions"], responses=errors(*GUARDED))

KIND = "application/octet-stream"
FILE = {"content": {KIND: {"schema": {"type": "string", "format": "binary"}}}}


@router.get("")
def list_versions(user: TheUser, store: TheStore) -> shapes.Versions:
    """Your classifiers, the newest first."""
    return shapes.Versions(versions=[shapes.Version.of(row) for row in store.versions(user.id)])


@router.post(
    "",
    status_code=201,
    responses=errors(400, 409, 415, 507),
    openapi_extra={"requestBody": {"required": True, "description": "An update file.", **FILE}},
)
async def upload_version(request: Request, user: TheUser, service: TheService) -> shapes.Version:
    """Bring an update file, made by 'fit train' or downloaded from here; it becomes the current version."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != KIND:
        raise Refusal(415, "bad_type", "The body has to be an update file.", f"Send 'Content-Type: {KIND}'.")
    content = await request.body()
    return shapes.Version.of(await to_thread.run_sync(_publish, service, user.id, content))


def _publish(service: Service, user: str, content: bytes) -> Version:
    update = service.engine.check(content)
    if (
        update.pixels.size > service.settings.max_image_size
    ):  # one image of such a size is as much work as hundreds
        raise UpdateFileError(
            f"This classifier looks at images of {update.pixels.size} pixels.",
            f"Here it is {service.settings.max_image_size} at most: train it with a smaller --image-size.",
        )
    classes = {str(name): count for name, count in zip(update.classes, update.counts, strict=True)}
    return service.store.publish(user, content, "uploaded", {"classes": classes})


@router.put("/current", responses=errors(404, 415), dependencies=[Depends(json_only)])
def choose_version(choice: shapes.Choice, user: TheUser, store: TheStore) -> shapes.Version:
    """Go back, or forward, to a version."""
    return shapes.Version.of(store.make_current(user.id, choice.number))


@router.get("/{number}/file", response_class=Response, responses={200: FILE, **errors(404)})
def download_version(number: shapes.Number, user: TheUser, store: TheStore) -> Response:
    """The update file; 'fit predict' takes it."""
    return Response(
        store.download(user.id, number),
        media_type=KIND,
        headers={"Content-Disposition": f'attachment; filename="classifier-{number}.safetensors"'},
    )


@router.get("/{number}/check", responses=errors(404))
def check_version(number: shapes.Number, user: TheUser, store: TheStore) -> shapes.Check:
    """Which training photos it gets wrong, each judged by a classifier built without it."""
    told = store.version(user.id, number).summary
    if "confusion" not in told:
        raise NotFoundError(
            f"Nothing is known of the photos of version {number}.", "It was not trained here."
        )
    return shapes.Check(
        classes=list(told["classes"]),
        confusion=told["confusion"],
        accuracy=told.get("accuracy"),
        low=told.get("low"),
        high=told.get("high"),
        photos=[shapes.Judged(**{k: one[k] for k in ("id", "truth", "said", "p")}) for one in told["photos"]],
    )


@router.delete("/{number}", status_code=204, responses=errors(404, 409))
def delete_version(number: shapes.Number, user: TheUser, store: TheStore) -> Response:
    """Delete a version that is not the current one."""
    store.delete_version(user.id, number)
    return Response(status_code=204)
