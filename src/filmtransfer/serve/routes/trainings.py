"""Trainings: asked for here, done by a worker, told as events."""

from __future__ import annotations

from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Depends, Header, Query
from fastapi.responses import StreamingResponse

from .. import shapes
from ..auth import TheUser
from ..events import open_stream
from ..service import TheService, TheStore
from ..shapes import GUARDED, errors
from .bodies import json_only

router = APIRouter(prefix="/api/trainings", tags=["trainings"], responses=errors(*GUARDED))

STREAM: shapes.Responses = {
    200: {
        "description": "Events: progress {step, steps, loss, accuracy, seconds_left}, version {number, stage, accuracy, "
        "low, high, bytes}, end {state, message}.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


@router.post(
    "",
    status_code=202,
    response_model=shapes.Training,
    responses=errors(400, 409, 415, 507),
    dependencies=[Depends(json_only)],
)
def ask_training(user: TheUser, store: TheStore, wish: shapes.NewTraining | None = None) -> object:
    """Train on your photos: first a classifier without fine-tuning, then the fine-tuned one."""
    return store.ask_training(user.id, wish.model_dump(exclude_none=True) if wish else {})


@router.get("")
def list_trainings(user: TheUser, store: TheStore) -> shapes.Trainings:
    """Your trainings, the newest first."""
    return shapes.Trainings(
        trainings=[shapes.Training.model_validate(row) for row in store.trainings(user.id)]
    )


@router.get("/{id}", response_model=shapes.Training, responses=errors(404))
def show_training(id: shapes.Id, user: TheUser, store: TheStore) -> object:
    """How a training stands."""
    return store.training(user.id, id)


@router.delete("/{id}", status_code=202, response_model=shapes.Training, responses=errors(404))
def cancel_training(id: shapes.Id, user: TheUser, store: TheStore) -> object:
    """Cancel a training; one that is over stays as it is."""
    return store.cancel_training(user.id, id)


@router.get("/{id}/events", response_class=StreamingResponse, responses={**STREAM, **errors(404)})
async def follow_training(
    id: shapes.Id,
    user: TheUser,
    service: TheService,
    after: Annotated[int, Query(ge=0, le=shapes.MAX_NUMBER, description="The last event you had.")] = 0,
    last_event_id: Annotated[str | None, Header(max_length=20)] = None,
) -> StreamingResponse:
    """A training's news as they come, until its end."""
    await to_thread.run_sync(service.store.training, user.id, id)  # it is there and yours, or 404
    if last_event_id and last_event_id.isascii() and last_event_id.isdecimal():
        after = min(int(last_event_id), shapes.MAX_NUMBER)
    return StreamingResponse(
        open_stream(service, user, id, after),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )
