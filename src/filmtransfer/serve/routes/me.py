"""The authenticated user."""

from __future__ import annotations

from fastapi import APIRouter, Response

from ..deps import CurrentUser, ServiceDep
from ..schemas import GUARDED, CurrentUserPublic, QuotaPublic, TrainingPublic, VersionPublic, errors
from ..store.trainings import ENDED

router = APIRouter(prefix="/api/me", tags=["me"], responses=errors(*GUARDED))


@router.get("")
def show_me(user: CurrentUser, service: ServiceDep) -> CurrentUserPublic:
    """Show your quota, what you use, your current version and your running training."""
    store = service.store
    current = store.versions.current(user.id)
    active = [one for one in store.trainings.all(user.id) if one.state not in ENDED]
    return CurrentUserPublic(
        id=user.id,
        name=user.name,
        quota=QuotaPublic.model_validate(user.quota),
        used=QuotaPublic.model_validate(store.users.usage(user.id)),
        current=VersionPublic.of(current) if current else None,
        training=TrainingPublic.model_validate(active[0]) if active else None,
        backbone=service.engine.backbone,
        image_size=service.engine.spec.size,
    )


@router.delete("", status_code=204)
def delete_me(user: CurrentUser, service: ServiceDep) -> Response:
    """Delete all your data: photos, classifiers, trainings, your name and token."""
    service.store.users.delete(user.id)
    service.cache.drop(user.id)
    return Response(status_code=204)
