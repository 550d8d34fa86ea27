"""Predictions: one image in, the chances of the user's classes out."""

from __future__ import annotations

import asyncio
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from torch import Tensor

from ...errors import InputError
from .. import pictures, shapes
from ..auth import TheUser
from ..engine.multi_user import Member
from ..service import Service, TheService
from ..shapes import GUARDED, errors
from ..store import ConflictError

router = APIRouter(prefix="/api/predictions", tags=["predictions"], responses=errors(*GUARDED))


@router.post("", responses=errors(400, 404, 409, 415), openapi_extra=pictures.BODY)
async def predict(
    request: Request,
    user: TheUser,
    service: TheService,
    version: Annotated[
        int | None, Query(ge=1, le=shapes.MAX_NUMBER, description="Not the current one.")
    ] = None,
) -> shapes.Prediction:
    """Say what is in an image. Images of different users share a pass through the backbone."""
    content = await pictures.read_image(request)
    number, member = await to_thread.run_sync(_member, service, user.id, version)
    pixels = await to_thread.run_sync(_pixels, service, content, member, limiter=service.decoding)
    answer = await asyncio.wrap_future(service.batcher.submit(member, pixels))
    return shapes.Prediction(
        version=number,
        name=None if answer.unknown else str(answer.classes[0][0]),
        unknown=answer.unknown,
        known=answer.known,
        probabilities=[shapes.ClassChance(name=str(name), p=p) for name, p in answer.classes],
    )


def _member(service: Service, user: str, wanted: int | None) -> tuple[int, Member]:
    """The user's classifier, from memory or from the store."""
    store = service.store
    version = store.current(user) if wanted is None else store.version(user, wanted)
    if version is None:
        raise ConflictError("There is no classifier yet.", "Add photos of two classes, then train.")
    number = version.number
    return number, service.cache.get(
        (user, number), lambda: service.engine.member(store.download(user, number))
    )


def _pixels(service: Service, content: bytes, member: Member) -> Tensor:
    pictures.check_kind(content)
    try:
        return service.engine.pixels(content, member.spec)
    except InputError as error:
        raise pictures.unusable(error) from None
