"""Photos: put under a class, shown, moved, removed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Depends, Query, Request, Response

from .. import pictures, shapes
from ..auth import TheUser
from ..service import TheService, TheStore
from ..shapes import GUARDED, errors
from .bodies import json_only

router = APIRouter(prefix="/api", tags=["photos"], responses=errors(*GUARDED))

ENDINGS = {
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/webp": "webp",
    "image/gif": "gif",
    "image/heic": "heic",
}
ANY_IMAGE: shapes.Responses = {
    200: {"content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}}
}
A_JPEG: shapes.Responses = {
    200: {"content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}}
}


@router.get("/photos")
def list_photos(
    user: TheUser,
    store: TheStore,
    class_id: Annotated[str | None, Query(description="Those of one class only.")] = None,
) -> shapes.Photos:
    """Your photos, all or those of one class."""
    return shapes.Photos(photos=[shapes.Photo.model_validate(row) for row in store.photos(user.id, class_id)])


@router.post(
    "/classes/{id}/photos",
    status_code=201,
    response_model=shapes.Photo,
    responses={
        200: {"model": shapes.Photo, "description": "It was there already."},
        **errors(400, 404, 415, 507),
    },
    openapi_extra=pictures.BODY,
)
async def add_photo(
    id: shapes.Id, request: Request, response: Response, user: TheUser, service: TheService
) -> object:
    """Put a photo under a class. When this has answered, the photo is safely kept."""
    content = await pictures.read_image(request)
    looked = await to_thread.run_sync(pictures.look, content, limiter=service.decoding)
    began = datetime.now(UTC)
    photo = await to_thread.run_sync(
        service.store.add_photo, user.id, id, content, looked.thumbnail, looked.media_type
    )
    if photo.created < began:  # the same bytes were under this class before
        response.status_code = 200
    return photo


@router.get("/photos/{id}", response_class=Response, responses={**ANY_IMAGE, **errors(404)})
def show_photo(id: shapes.Id, user: TheUser, store: TheStore) -> Response:
    """The photo, byte for byte as it came."""
    photo = store.photo(user.id, id)
    name = f"photo-{id}.{ENDINGS.get(photo.media_type, 'img')}"
    return Response(
        store.photo_content(user.id, id),
        media_type=photo.media_type,
        headers={"Content-Disposition": f'inline; filename="{name}"'},
    )


@router.get("/photos/{id}/thumbnail", response_class=Response, responses={**A_JPEG, **errors(404)})
def show_thumbnail(id: shapes.Id, user: TheUser, store: TheStore) -> Response:
    """A small upright JPEG of the photo."""
    return Response(store.thumbnail(user.id, id), media_type="image/jpeg")


@router.patch(
    "/photos/{id}",
    response_model=shapes.Photo,
    responses=errors(404, 409, 415),
    dependencies=[Depends(json_only)],
)
def move_photo(id: shapes.Id, move: shapes.Move, user: TheUser, store: TheStore) -> object:
    """Put a photo under another class."""
    return store.move_photo(user.id, id, move.class_id)


@router.delete("/photos/{id}", status_code=204, responses=errors(404))
def remove_photo(id: shapes.Id, user: TheUser, store: TheStore) -> Response:
    """Remove a photo."""
    store.remove_photo(user.id, id)
    return Response(status_code=204)
