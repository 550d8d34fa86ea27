"""Predictions for one image."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Query, Request

from ..deps import CurrentProject, CurrentUser, Service, ServiceDep
from ..engine.multi_user import Member
from ..responses import GUARDED, errors
from ..schemas import MAX_NUMBER, ClassProbability, PredictionPublic
from ..store import ConflictError, ProjectId, User
from ..uploads import IMAGE_BODY, decode, read_image

router = APIRouter(prefix="/api/predictions", tags=["predictions"], responses=errors(*GUARDED))


@router.post("", responses=errors(400, 404, 409, 415), openapi_extra=IMAGE_BODY)
async def predict(
    request: Request,
    user: CurrentUser,
    project: CurrentProject,
    service: ServiceDep,
    version: Annotated[
        int | None, Query(ge=1, le=MAX_NUMBER, description="Another version than the current one.")
    ] = None,
) -> PredictionPublic:
    """Classify an image. Images of different users share a pass of the backbone."""
    content = await read_image(request)
    number, member = await to_thread.run_sync(_member, service, user, project, version)
    pixels = await decode(service, request, user.id, partial(service.decoders.square, content, member.spec))
    answer = await asyncio.wrap_future(service.batcher.submit(member, pixels))
    return PredictionPublic(
        version=number,
        name=None if answer.rejected else str(answer.classes[0][0]),
        unknown=answer.rejected,
        known=answer.ood_score,
        probabilities=[ClassProbability(name=str(name), p=p) for name, p in answer.classes],
    )


def _member(service: Service, user: User, project: ProjectId, number: int | None) -> tuple[int, Member]:
    """Return a version's number and its classifier, from the cache or from the store."""
    versions = service.store.versions
    version = versions.current(project) if number is None else versions.get(project, number)
    if version is None:
        raise ConflictError("There is no classifier yet.", "Add photos of two classes, then train.")
    number = version.number

    def load() -> Member:
        return service.engine.member(versions.content(project, number))

    return number, service.cache.get((user.id, project, number), load)
