"""The authenticated user."""

from __future__ import annotations

from fastapi import APIRouter, Response

from ..deps import CurrentProject, CurrentUser, ServiceDep
from ..responses import GUARDED, errors
from ..schemas import CurrentUserPublic, QuotaPublic, TrainingPublic, VersionPublic
from ..store.trainings import ENDED

router = APIRouter(prefix="/api/me", tags=["me"], responses=errors(*GUARDED))


@router.get("")
def show_me(user: CurrentUser, project: CurrentProject, service: ServiceDep) -> CurrentUserPublic:
    """Show your quota, what you use, and the current version and the running training of a project."""
    store = service.store
    current = store.versions.current(project)
    active = [one for one in store.trainings.all(project) if one.state not in ENDED]
    return CurrentUserPublic(
        id=user.id,
        name=user.name,
        quota=QuotaPublic.model_validate(user.quota),
        used=QuotaPublic.model_validate(store.users.usage(user.id)),
        project=project,
        current=VersionPublic.of(current) if current else None,
        training=TrainingPublic.model_validate(active[0]) if active else None,
        backbone=service.engine.backbone,
        image_size=service.engine.spec.size,
    )


@router.delete("/data", status_code=204)
def start_over(user: CurrentUser, service: ServiceDep) -> Response:
    """Delete all your projects with photos, classifiers and trainings; your name, token and quota stay."""
    try:
        service.store.users.start_over(user.id)
    finally:
        service.cache.drop(user.id)
    return Response(status_code=204)


@router.delete("", status_code=204)
def delete_me(user: CurrentUser, service: ServiceDep) -> Response:
    """Delete your account: all your data, your name and your token."""
    try:
        service.store.users.delete(user.id)
    finally:
        service.cache.drop(user.id)
    return Response(status_code=204)
