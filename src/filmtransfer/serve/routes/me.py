"""The user who asks: what they have, and the end of it."""

from __future__ import annotations

from fastapi import APIRouter, Response

from .. import shapes
from ..auth import TheUser
from ..service import TheService
from ..shapes import GUARDED, errors

router = APIRouter(prefix="/api/me", tags=["me"], responses=errors(*GUARDED))


@router.get("")
def me(user: TheUser, service: TheService) -> shapes.Me:
    """What there is of you here."""
    store = service.store
    current = store.current(user.id)
    going = [one for one in store.trainings(user.id) if one.state in ("waiting", "running")]
    return shapes.Me(
        id=user.id,
        name=user.name,
        quota=shapes.Quota.model_validate(user.quota),
        used=shapes.Quota.model_validate(store.used(user.id)),
        current=shapes.Version.of(current) if current else None,
        training=shapes.Training.model_validate(going[0]) if going else None,
        backbone=service.engine.backbone.name,
        image_size=service.engine.spec.size,
    )


@router.delete("", status_code=204)
def delete_me(user: TheUser, service: TheService) -> Response:
    """Delete everything of yours: photos, classifiers, trainings, your name and token."""
    service.store.delete_user(user.id)
    service.cache.drop(user.id)
    return Response(status_code=204)
