"""The photos of a project."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Query, Request, Response

from ..deps import CurrentProject, CurrentUser, JsonOnly, ServiceDep, StoreDep
from ..responses import GUARDED, binary, errors
from ..schemas import Id, PhotoPublic, PhotosPublic, PhotoUpdate
from ..uploads import IMAGE_BODY, decode, read_image

router = APIRouter(prefix="/api", tags=["photos"], responses=errors(*GUARDED))

SUFFIXES = {
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/webp": "webp",
    "image/gif": "gif",
    "image/heic": "heic",
}


@router.get("/photos")
def list_photos(
    project: CurrentProject,
    store: StoreDep,
    class_id: Annotated[str | None, Query(description="Only those of one class.")] = None,
) -> PhotosPublic:
    """List the photos of a project, all or those of one class."""
    return PhotosPublic(
        photos=[PhotoPublic.model_validate(one) for one in store.photos.all(project, class_id)]
    )


@router.post(
    "/classes/{id}/photos",
    status_code=201,
    responses={
        200: {"model": PhotoPublic, "description": "The class had this photo already."},
        **errors(400, 404, 415, 507),
    },
    openapi_extra=IMAGE_BODY,
)
async def add_photo(
    id: Id,
    request: Request,
    response: Response,
    user: CurrentUser,
    project: CurrentProject,
    service: ServiceDep,
) -> PhotoPublic:
    """Add a photo to a class. When the response arrives, the photo is on the disk."""
    content = await read_image(request)
    media_type, thumbnail = await decode(
        service, request, user.id, partial(service.decoders.thumbnail, content)
    )
    photo, added = await to_thread.run_sync(
        service.store.photos.add, project, id, content, thumbnail, media_type
    )
    service.on_photo()
    if not added:  # the class had a photo with the same bytes
        response.status_code = 200
    return PhotoPublic.model_validate(photo)


@router.get("/photos/{id}", response_class=Response, responses={**binary("image/*"), **errors(404)})
def show_photo(id: Id, project: CurrentProject, store: StoreDep) -> Response:
    """Return the original bytes of a photo."""
    photo = store.photos.get(project, id)
    name = f"photo-{id}.{SUFFIXES.get(photo.media_type, 'img')}"
    return Response(
        store.photos.content(project, id),
        media_type=photo.media_type,
        headers={"Content-Disposition": f'inline; filename="{name}"'},
    )


@router.get(
    "/photos/{id}/thumbnail", response_class=Response, responses={**binary("image/jpeg"), **errors(404)}
)
def show_thumbnail(id: Id, project: CurrentProject, store: StoreDep) -> Response:
    """Return a small upright JPEG of a photo."""
    return Response(store.photos.thumbnail(project, id), media_type="image/jpeg")


@router.patch("/photos/{id}", responses=errors(404, 409, 415), dependencies=[JsonOnly])
def move_photo(id: Id, change: PhotoUpdate, project: CurrentProject, store: StoreDep) -> PhotoPublic:
    """Move a photo to another class."""
    return PhotoPublic.model_validate(store.photos.move(project, id, change.class_id))


@router.delete("/photos/{id}", status_code=204, responses=errors(404))
def delete_photo(id: Id, project: CurrentProject, store: StoreDep) -> Response:
    """Delete a photo."""
    store.photos.delete(project, id)
    return Response(status_code=204)
