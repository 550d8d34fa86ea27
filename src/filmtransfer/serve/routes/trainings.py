"""The trainings of a project: requested here, run by a worker, followed as events."""

from __future__ import annotations

from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from ..deps import CurrentProject, CurrentUser, JsonOnly, ServiceDep, StoreDep
from ..events import EventStreamResponse
from ..responses import GUARDED, Responses, errors
from ..schemas import MAX_NUMBER, Id, TrainingCreate, TrainingPublic, TrainingsPublic
from ..store import ConflictError
from ..trainable import check_trainable

router = APIRouter(prefix="/api/trainings", tags=["trainings"], responses=errors(*GUARDED))

EVENTS: Responses = {
    200: {
        "description": "Events: progress {step, steps, loss, accuracy, seconds_left}, version {number, stage, accuracy, "
        "low, high, bytes}, end {state, message}.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


@router.post("", status_code=202, responses=errors(400, 409, 415, 507), dependencies=[JsonOnly])
def request_training(
    project: CurrentProject, service: ServiceDep, options: TrainingCreate | None = None
) -> TrainingPublic:
    """Train on the photos of a project: first a classifier without fine-tuning, then the fine-tuned one."""
    chosen = options.model_dump(exclude_none=True) if options else {}
    with_photos = [one for one in service.store.classes.all(project) if one.photos]
    check_trainable(len(with_photos), ConflictError)
    training = service.store.trainings.request(project, chosen)
    service.on_training()
    return TrainingPublic.model_validate(training)


@router.get("")
def list_trainings(project: CurrentProject, store: StoreDep) -> TrainingsPublic:
    """List the trainings of a project, the newest first."""
    return TrainingsPublic(
        trainings=[TrainingPublic.model_validate(one) for one in store.trainings.all(project)]
    )


@router.get("/{id}", responses=errors(404))
def show_training(id: Id, project: CurrentProject, store: StoreDep) -> TrainingPublic:
    """Show the state of a training."""
    return TrainingPublic.model_validate(store.trainings.get(project, id))


@router.delete("/{id}", status_code=202, responses=errors(404))
def cancel_training(id: Id, project: CurrentProject, store: StoreDep) -> TrainingPublic:
    """Cancel a training; a training that has ended does not change."""
    return TrainingPublic.model_validate(store.trainings.cancel(project, id))


@router.get("/{id}/events", response_class=StreamingResponse, responses={**EVENTS, **errors(404)})
async def follow_training(
    id: Id,
    user: CurrentUser,
    project: CurrentProject,
    service: ServiceDep,
    after: Annotated[
        int, Query(ge=0, le=MAX_NUMBER, description="The last event that you have received.")
    ] = 0,
    last_event_id: Annotated[str | None, Header(max_length=20)] = None,
) -> EventStreamResponse:
    """Send the events of a training as they occur, until its end."""
    await to_thread.run_sync(service.store.trainings.get, project, id)  # 404 unless it exists
    if last_event_id and last_event_id.isascii() and last_event_id.isdecimal():
        after = min(int(last_event_id), MAX_NUMBER)
    return EventStreamResponse(service, user, project, id, after)
