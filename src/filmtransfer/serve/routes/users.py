"""Users, for the admin: who there is and how much they may keep; never what they keep."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Response

from .. import shapes
from ..auth import AdminOnly
from ..service import TheService, TheStore
from ..shapes import GUARDED, errors
from ..store import Quota
from .bodies import json_only

router = APIRouter(prefix="/api/users", tags=["admin"], dependencies=[AdminOnly], responses=errors(*GUARDED))
JsonOnly = Depends(json_only)


@router.post(
    "",
    status_code=201,
    response_model=shapes.UserMade,
    responses=errors(400, 415, 507),
    dependencies=[JsonOnly],
)
def add_user(new: shapes.NewUser, store: TheStore) -> dict[str, object]:
    """Make a user. The token is shown this once."""
    quota = new.quota.of(Quota()) if new.quota else None
    user, token = store.create_user(new.name, quota)
    return {**shapes.User.model_validate(user).model_dump(), "token": token}


@router.get("")
def list_users(store: TheStore) -> shapes.Users:
    """All users."""
    return shapes.Users(users=[shapes.User.model_validate(user) for user in store.users()])


@router.get("/{id}", response_model=shapes.UserFull, responses=errors(404))
def show_user(id: shapes.Id, store: TheStore) -> dict[str, object]:
    """One user, and how much they keep."""
    user = store.user(id)
    used = shapes.Quota.model_validate(store.used(id))
    return {**shapes.User.model_validate(user).model_dump(), "used": used}


@router.post("/{id}/token", responses=errors(404))
def renew_token(id: shapes.Id, store: TheStore) -> shapes.Token:
    """A new token; the old one ends."""
    return shapes.Token(token=store.new_token(id))


@router.put(
    "/{id}/quota", response_model=shapes.User, responses=errors(400, 404, 415), dependencies=[JsonOnly]
)
def set_quota(id: shapes.Id, wish: shapes.QuotaWish, store: TheStore) -> object:
    """Change how much a user may keep."""
    return store.set_quota(id, wish.of(store.user(id).quota))


@router.delete("/{id}", status_code=204, responses=errors(404))
def delete_user(id: shapes.Id, service: TheService) -> Response:
    """Delete a user and everything of theirs."""
    service.store.delete_user(id)
    service.cache.drop(id)
    return Response(status_code=204)
